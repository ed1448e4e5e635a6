"""`frn explain`: draw where each class can and cannot reconstruct a photo."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from frn.cli.shell import options
from frn.cli.shell.classes import open_classes, refuse_a_photo
from frn.cli.shell.console import print_json, printable, stdout, user_errors
from frn.inference.records import Explanation, answer_of, rounded
from frn.system.files import require_writable


@user_errors()
def explain(
    classes: options.Classes,
    image: Annotated[Path, typer.Argument(help="Photo to explain.")],
    out: Annotated[Path, typer.Option(help="Image to write (.png).")],
    model: options.ClassifierModel = None,
    level: options.Level = None,
    top: options.Top = None,
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
    from frn.features.feature_cache import content_key
    from frn.images.near_copies import look
    from frn.images.opening import open_image, read_file
    from frn.inference.explanation import Panel, mark, sheet
    from frn.system.files import write_atomically

    if out.suffix.lower() != ".png":
        raise FrnError(f"{out}: the image's name must end in .png")
    require_writable(out, replace=replace)
    refuse_a_photo(classes, str(image), "explain")
    photo = open_image(image)  # before enrolling, to report a wrong photo at once
    classifier = open_classes(classes, model, device, tta, level=level)
    crop = classifier.extractor.transform(photo)
    (maps,) = classifier.extractor.feature_maps(crop[None])
    key = content_key(read_file(image))
    prediction = classifier.predict(maps, key, look(crop))
    error_maps = dict(zip(classifier.names, classifier.error_maps(maps, key), strict=True))
    ranked = sorted(prediction.errors, key=prediction.errors.__getitem__)
    panels = []
    for name in ranked[: top or 3]:
        known = "" if prediction.unknown else f" · {prediction.probabilities[name]:.1%}"  # only known classes share it
        panels.append(Panel(printable(name), f"{prediction.explained[name]:.0%} explained{known}", error_maps[name]))
    picture = io.BytesIO()
    sheet(crop, printable(image.name), panels).save(picture, "PNG", pnginfo=mark())
    write_atomically(out, picture.getvalue(), replace=replace)
    if as_json:
        record = answer_of(str(image), prediction, top)
        explained = {name: round(prediction.explained[name], 6) for name in record.errors}
        heat = {name: rounded(error_maps[name].tolist()) for name in record.errors}
        print_json(Explanation(**structs.asdict(record), out=str(out), explained_by=explained, error_maps=heat))
    else:
        label = "unknown" if prediction.unknown else prediction.label
        stdout().print(f"{printable(str(out))}: {printable(label)}")
