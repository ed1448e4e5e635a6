"""`frn cache`: what is kept on disk so that it need not be made again."""

import time
from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell.console import print_table, printable, stdout, user_errors
from frn.cli.shell.output import AsJson, Format, chosen_format, printed

DAY = 86400

app = typer.Typer(
    invoke_without_command=True,
    help="Show the caches of decoded images and feature maps, move or clear them.",
)


@app.callback()
def cache(context: typer.Context, form: Format = None, as_json: AsJson = False) -> None:
    """Show the caches of decoded images and feature maps, move or clear them.

    Training and evaluation decode each image once. Of these the longest unused go first where all take more than 10
    GiB; FRN_CACHE_LIMIT=20 allows 20 GiB, and FRN_CACHE=DIR keeps the caches in another folder.
    """
    if context.invoked_subcommand is not None:
        return
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.system.caches import cached_splits, features_size, limit_in_bytes
        from frn.system.files import cache_folder

        folder, limit, splits, features = cache_folder(), limit_in_bytes(), cached_splits(), features_size()
    found = [{"of": s.of, "images": s.images, "bytes": s.size, "used": round(s.used)} for s in splits]
    if printed(wants, {"folder": str(folder), "limit": limit, "images": found, "features": {"bytes": features}}, found):
        return
    if splits:
        now = time.time()
        rows = [
            (printable(s.of) or "not known", str(s.images), _size(s.size), f"{(now - s.used) / DAY:.1f} days ago")
            for s in splits
        ]
        print_table(("decoded images of", "images", "size", "last used"), rows)
    total = sum(split.size for split in splits)
    stdout().print(f"decoded images: {_size(total)} of {_size(limit)} allowed")
    stdout().print(f"feature maps: {_size(features)}")
    stdout().print(f"in {printable(str(folder))}")


@app.command()
def clear(
    unused: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Only images that were not used for so long.", show_default=False),
    ] = None,
) -> None:
    """Remove the caches. They are made again when they are needed."""
    with user_errors():
        from frn.system.caches import clear as remove

        freed = remove(None if unused is None else unused * DAY)
    stdout().print(f"freed {_size(freed)}")


@app.command()
def move(to: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder, or a new one.")]) -> None:
    """Move the caches into another folder, and use that from now on."""
    with user_errors():
        from frn.system.caches import move as move_all

        move_all(to)
    stdout().print(f"the caches are in {printable(str(to.resolve()))}")


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
