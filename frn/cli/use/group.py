"""`frn group`: group similar unlabelled photos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import console, options
from frn.errors import FrnError
from frn.inference.records import Groups
from frn.models.zoo import DEFAULT_MODEL
from frn.system.file_sets import require_new_folder

if TYPE_CHECKING:
    from frn.features.extractor import Embedded, Extractor


def group(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders or globs; - reads a list from stdin.")],
    out: Annotated[Path, typer.Option(help="New folder for copies, or project (.frn.json) to write.")],
    groups: Annotated[
        int | None, typer.Option(min=1, help="Number of groups.", show_default="chosen from the photos")
    ] = None,
    model: Annotated[str, typer.Option(help="Model name, features.onnx, model file or run folder.")] = DEFAULT_MODEL,
    tta: options.TtaName = None,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Group similar unlabelled photos into probable classes.

    You can then rename, merge and delete the groups and use them as classes. Each group starts with its most
    central photos. --out is a new folder, where each group gets a subfolder of copies, or a project that refers to the
    original photos. No photo is moved or overwritten.
    """
    from frn.cli.shell.photo_arguments import find_photos

    names, skipped = find_photos(photos)
    console.report_skipped(skipped, all_of_them="")
    from frn.estimator.loading import load_extractor
    from frn.features.extractor import require_fixed
    from frn.projects.project import is_project
    from frn.ridge.unlabelled.groups import group as found_in

    require_new_folder(out)
    if is_project(out) and out.exists():
        raise FrnError(f"{out}: already exists. Give another --out.")
    require_fixed(tta, "groups are not answers")
    extractor = load_extractor(model, device, tta or "none")
    read, unread = _read(extractor, names)
    console.report_skipped(unread, all_of_them="--json lists them all")
    import numpy as np

    maps, looks = np.stack([each.maps for _, each in read]), [each.look for _, each in read]
    found_groups = found_in(maps, looks, extractor.prior, groups)
    width = len(str(len(found_groups)))
    numbers = {f"group {number:0{width}}": near_sets for number, near_sets in enumerate(found_groups, 1)}
    members = {name: [read[place][0] for near in near_sets for place in near] for name, near_sets in numbers.items()}
    if is_project(out):
        _save(out, model, extractor, {name: [read[p] for p, *_ in near_sets] for name, near_sets in numbers.items()})
    else:
        _copy(out, members)
    copies = {
        str(read[p][0]): str(read[near[0]][0]) for near_sets in found_groups for near in near_sets for p in near[1:]
    }
    listed = {name: list(map(str, paths)) for name, paths in members.items()}
    if as_json:
        console.print_json(Groups(str(out), listed, copies, unread))
        return
    rows = [[name, str(len(paths)), str(paths[0])] for name, paths in listed.items()]
    console.print_table(("group", "photos", "most central"), rows)
    console.stdout().print(f"{console.printable(str(out))}: {len(read):,} photos in {len(listed)} groups")
    if copies:
        console.note(f"near copies of other photos, put into the same groups: {len(copies)}")


def _read(extractor: "Extractor", names: list[str]) -> "tuple[list[tuple[Path, Embedded]], list[str]]":
    """Return the maps of distinct photos and why others were skipped. Raises FrnError if no photo can be read."""
    from frn.features.feature_cache import FeatureStore

    read: dict[str, tuple[Path, Embedded]] = {}
    skipped = []
    with console.progress_bar("photos") as progress:
        for done, (path, outcome) in enumerate(extractor.read(map(Path, names), store=FeatureStore()), 1):
            if isinstance(outcome, FrnError):
                skipped.append(str(outcome))
            elif outcome.key in read:
                skipped.append(f"{path}: is the same photo as {read[outcome.key][0]}")
            else:
                read[outcome.key] = path, outcome
            progress(done, len(names))
    if not read:
        raise FrnError(f"none of the {len(names)} photos can be read. The first error: {skipped[0]}")
    return list(read.values()), skipped


def _copy(out: Path, members: dict[str, list[Path]]) -> None:
    """Write a new folder with a subfolder of copies for each group, numbered from the most central one."""
    from frn.images.boxes import split_box
    from frn.images.opening import read_file
    from frn.system.file_sets import new_folder

    with new_folder(out) as new:
        for name, paths in members.items():
            (new / name).mkdir()
            width = len(str(len(paths)))
            for number, path in enumerate(paths, 1):
                file, box = split_box(path)
                copy = f"{number:0{width}} {file.stem}{'.png' if box else file.suffix}"
                (new / name / copy).write_bytes(read_file(path))


def _save(out: Path, model: str, extractor: "Extractor", members: "dict[str, list[tuple[Path, Embedded]]]") -> None:
    """Write a project whose classes are the groups, without near copies."""
    from frn.projects.project import ModelReference, Project, save_project
    from frn.projects.session import Support, build_state

    supports = {name: [Support.of(path.absolute(), e.key) for path, e in photos] for name, photos in members.items()}
    state, _ = build_state(supports.items())
    save_project(out, Project(ModelReference.of(model, extractor, out.parent), state))
