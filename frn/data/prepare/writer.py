"""Writing a data set so that an interrupted call can go on and a second call changes nothing."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from frn.data.cache import Progress
from frn.data.prepare.sources import Item
from frn.errors import FrnError


def write_items(items: Sequence[Item], out: Path, progress: Progress | None = None) -> dict[str, tuple[int, int]]:
    """Write every item to `out/split/label/file`; whole files of the right size stay as they are.

    Returns:
        Classes and images of each split.

    Raises:
        FrnError: if `out` holds other classes, two items have the same place, or a file cannot be written.
    """
    wanted = Counter((item.split, item.label, item.file) for item in items)
    twice = [place for place, count in wanted.items() if count > 1]
    if twice:
        raise FrnError(f"the source has {'/'.join(twice[0])} twice ({len(twice)} such files). Give each source once.")
    _refuse_others(items, out)
    made: set[Path] = set()
    for done, item in enumerate(items, start=1):
        folder = out / item.split / item.label
        path = folder / item.file
        if not (path.is_file() and path.stat().st_size == item.size):
            data = item.read()
            try:
                if folder not in made:
                    folder.mkdir(parents=True, exist_ok=True)
                    made.add(folder)
                partial = folder / f".{item.file}.partial"
                partial.write_bytes(data)
                os.replace(partial, path)
            except OSError as error:
                raise FrnError(
                    f"{path}: cannot be written ({error.strerror}); {done - 1} of {len(items)} images are there. "
                    "Mend that and call again: it goes on from here."
                ) from error
        if progress and (done % 64 == 0 or done == len(items)):
            progress(done, len(items))
    counts: dict[str, tuple[int, int]] = {}
    for split in ("train", "val", "test"):
        labels = [item.label for item in items if item.split == split]
        if labels:
            counts[split] = (len(set(labels)), len(labels))
    return counts


def _refuse_others(items: Sequence[Item], out: Path) -> None:
    labels = {(item.split, item.label) for item in items}
    for split in {item.split for item in items}:
        folder = out / split
        if folder.is_dir():
            others = sorted(entry.name for entry in folder.iterdir() if (split, entry.name) not in labels)
            if others:
                raise FrnError(f"{folder}: already holds something else ({others[0]!r}). Give an --out of its own.")
