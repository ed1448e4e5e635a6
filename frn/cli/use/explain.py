"""`frn explain`: draw where each class can and cannot reconstruct a photo."""

import math
from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.classes import open_classes, refuse_a_photo
from frn.cli.shell.console import print_json, printable, rounded, stdout, user_errors
from frn.system.overwriting import require_writable

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
LONGEST = {"JPEG": 65_500, "WEBP": 16_383}
"""Largest width and height that each format can store, in pixels."""


@user_errors()
def explain(
    classes: options.Classes,
    image: Annotated[Path, typer.Argument(help="Photo to explain.")],
    out: Annotated[Path, typer.Option(help="Image to write: .png, .jpg or .webp.")],
    model: options.ClassifierModel = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to show, best first.")] = 7,
    smooth: Annotated[
        bool, typer.Option("--smooth", help="Interpolate between the locations of the error map.")
    ] = False,
    tta: options.TtaName = "none",
    device: options.Device = "auto",
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw where each class can and cannot reconstruct a photo.

    The class reconstructs dark areas well and light areas badly. All classes share one scale.
    """
    import io

    from frn.errors import FrnError
    from frn.images.near_copies import look
    from frn.images.opening import open_image, read_file
    from frn.inference.explanation import Panel, marked, sheet
    from frn.inference.feature_cache import content_key
    from frn.system.files import write_atomically

    if out.suffix.lower() not in FORMATS:
        raise FrnError(f"{out}: the image's name must end in {' or '.join(FORMATS)}")
    require_writable(out, replace=replace)
    refuse_a_photo(classes, str(image), "explain")
    photo = open_image(image)  # before enrolling, to report a wrong photo at once
    classifier = open_classes(classes, model, device, tta)
    crop = classifier.extractor.transform(photo)
    (maps,) = classifier.extractor.feature_maps(crop[None])
    key = content_key(read_file(image))
    prediction = classifier.predict(maps, key, look(crop))
    error_maps = dict(zip(classifier.classes, classifier.error_maps(maps, key), strict=True))
    ranked = sorted(prediction.errors, key=prediction.errors.__getitem__)
    panels = []
    for name in ranked[:top]:
        known = "" if prediction.unknown else f" · {prediction.probabilities[name]:.1%}"  # only known classes share it
        panels.append(Panel(name, f"{prediction.explained[name]:.0%} explained{known}", error_maps[name]))
    rendered, form_of = sheet(crop, image.name, panels, smooth=smooth), FORMATS[out.suffix.lower()]
    if max(rendered.size) > LONGEST.get(form_of, math.inf):
        raise FrnError(
            f"{out}: the image is {rendered.width} x {rendered.height} pixels, but {form_of} allows at most "
            f"{LONGEST[form_of]:,} per side. Lower --top, or use a name that ends in .png."
        )
    picture = io.BytesIO()
    rendered.save(picture, form_of, **marked(form_of))
    write_atomically(out, picture.getvalue())
    label = "unknown" if prediction.unknown else prediction.label
    numbers = {
        name: {
            "probability": prediction.probabilities[name],
            "explained": prediction.explained[name],
            "error": prediction.errors[name],
            "error_map": error_maps[name].tolist(),
        }
        for name in ranked
    }
    summary = {
        "image": str(image),
        "label": prediction.label,
        "unknown": prediction.unknown,
        **({"example_of": prediction.example_of} if prediction.example_of else {}),
        **({"near_copy_of": str(prediction.near_copy_of.path)} if prediction.near_copy_of else {}),
        "threshold": prediction.threshold,
        "out": str(out),
        "classes": numbers,
    }
    if as_json:
        print_json(rounded(summary))
    else:
        stdout().print(f"{printable(str(out))}: {printable(label)}")
