"""`frn explain`: draw the parts that decided, and the example parts that each was reconstructed from."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET, structs

from frn.cli.shell import options
from frn.cli.shell.classes import open_classes
from frn.cli.shell.console import print_json, printable, stdout
from frn.inference.records import ExamplePart, Explanation, PhotoPart, answer_of, rounded
from frn.system.files import require_writable

if TYPE_CHECKING:
    from frn.inference.explanation import Explanation as Reasons
    from frn.report.explanation_picture import Crops


def explain(
    classes: options.Classes,
    image: Annotated[Path, typer.Argument(help="Photo to explain.")],
    out: Annotated[Path, typer.Option(help="Image to write (.png).")],
    model: options.ClassifierModel = None,
    level: options.Level = None,
    against: Annotated[str | None, typer.Option(help="Class to compare with.", show_default="the second best")] = None,
    maps: Annotated[bool, typer.Option("--maps", help="Draw the error map of each class instead.")] = False,
    tta: options.TtaName = None,
    find: options.FindName = None,
    device: options.Device = "auto",
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw the parts that decided, and the example parts that each was reconstructed from.

    Each part has its share of the decision between the best class and the second best, and both classes show the
    three example parts that they reconstruct it from, with their shares. With --maps, the class reconstructs areas
    without colour well and coloured areas badly; all classes share one scale.
    """
    import io

    from frn.errors import FrnError
    from frn.images.opening import open_image
    from frn.inference import explanation
    from frn.report.explanation_picture import Crops, draw
    from frn.report.heat_maps import Panel, mark, sheet
    from frn.system.files import write_atomically

    if out.suffix.lower() != ".png":
        raise FrnError(f"{out}: the image's name must end in .png")
    require_writable(out, replace=replace)
    open_image(image)  # before enrolling, to report a wrong photo immediately
    classifier = open_classes(classes, model, device, tta, level=level, find=find)
    ((_, seen),) = classifier.read([image])
    if isinstance(seen, FrnError):
        raise seen
    (prediction,) = classifier.predictions([seen])
    prediction = dataclasses.replace(prediction, box=seen.box, searched=bool(seen.whole))
    decides, seen = classifier.answering(seen)
    assert isinstance(seen.source, Path)  # it was read from a file
    feature_map, key, subject = seen.maps, seen.key, seen.source
    crop = decides.extractor.transform(open_image(subject))
    reasons = explanation.explain(decides, feature_map, key, against)
    why, crops = reasons.sentence(unknown=prediction.unknown), Crops(decides.extractor)
    error_maps = dict(zip(decides.names, decides.error_maps(feature_map, key), strict=True))
    if maps:
        panels = []
        for name in sorted(prediction.errors, key=prediction.errors.__getitem__)[:3]:
            known = "" if prediction.unknown else f" · {prediction.probabilities[name]:.1%}"  # only known classes share
            note = f"{prediction.explained[name]:.0%} explained{known}"
            panels.append(Panel(printable(name), note, error_maps[name]))
        drawn = sheet(crop, printable(image.name), panels)
    else:
        drawn = draw(reasons, subject, crops, printable(why), printable)
    picture = io.BytesIO()
    drawn.save(picture, "PNG", pnginfo=mark())
    write_atomically(out, picture.getvalue(), replace=replace)
    if as_json:
        record = answer_of(str(image), prediction)
        explained = {name: round(prediction.explained[name], 6) for name in record.errors}
        heat = {name: rounded(error_maps[name].tolist()) for name in record.errors}
        more = {**_record(reasons, subject, crops), "explained_by": explained, "error_maps": heat}
        print_json(Explanation(**structs.asdict(record), out=str(out), why=why, **more))
    else:
        stdout().print(f"{printable(str(out))}: {printable(why)}")


def _record(reasons: "Reasons", image: Path, crops: "Crops") -> dict[str, Any]:
    """Return the fields of an explanation that the picture also shows."""
    classes = [one for one in (reasons.best, reasons.other) if one is not None]
    parts = [
        PhotoPart(
            box=crops.in_pixels(image, part.box),
            share=round(part.share, 6),
            explained={one.name: round(one.explained(part.box), 6) for one in classes},
            sources={
                one.name: [
                    ExamplePart(str(s.photo.path), round(s.share, 6), crops.in_pixels(s.photo.path, s.box))
                    for s in one.sources(part.box)
                ]
                for one in classes
            },
        )
        for part in reasons.parts()
    ]
    examples = {
        one.name: [
            ExamplePart(str(photo.path), round(share, 6))
            for photo, share in zip(one.photos, one.of_photos().tolist(), strict=True)
        ]
        for one in classes
    }
    against = reasons.other.name if reasons.other else UNSET
    return {"against": against, "margin": round(reasons.margin, 6), "parts": parts, "examples": examples}
