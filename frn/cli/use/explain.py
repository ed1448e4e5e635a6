"""`frn explain`: draw where each class can and cannot reconstruct a photo."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.classes import as_line, open_classes, refuse_a_photo
from frn.cli.shell.console import print_json, printable, rounded, stdout, user_errors
from frn.system.files import require_writable


@user_errors()
def explain(
    classes: options.Classes,
    image: Annotated[Path, typer.Argument(help="Photo to explain.")],
    out: Annotated[Path, typer.Option(help="Image to write (.png).")],
    model: options.ClassifierModel = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to show, best first.")] = 7,
    tta: options.TtaName = None,
    device: options.Device = "auto",
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw where each class can and cannot reconstruct a photo.

    The class reconstructs areas without colour well and coloured areas badly. All classes share one scale.
    """
    import io

    from frn.errors import FrnError
    from frn.images.near_copies import look
    from frn.images.opening import open_image, read_file
    from frn.inference.explanation import Panel, mark, sheet
    from frn.inference.feature_cache import content_key
    from frn.system.files import write_atomically

    if out.suffix.lower() != ".png":
        raise FrnError(f"{out}: the image's name must end in .png")
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
        panels.append(Panel(printable(name), f"{prediction.explained[name]:.0%} explained{known}", error_maps[name]))
    picture = io.BytesIO()
    sheet(crop, printable(image.name), panels).save(picture, "PNG", pnginfo=mark())
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
    line = as_line(str(image), prediction)
    for of_classes in ("probability", "probabilities", "errors", "explained"):
        del line[of_classes]
    if as_json:
        print_json({**line, "out": str(out), "classes": rounded(numbers)})
    else:
        stdout().print(f"{printable(str(out))}: {printable(label)}")
