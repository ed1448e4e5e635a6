"""`frn cache`: show or clear the cached data on disk."""

import time

import typer

from frn.cli.shell import options
from frn.cli.shell.console import print_json, print_table, printable, stdout, user_errors

DAY = 86400

app = typer.Typer(invoke_without_command=True)


@app.callback()
@user_errors()
def cache(context: typer.Context, as_json: options.AsJson = False) -> None:
    """Show the caches of decoded images and feature maps, or clear them.

    Training and evaluation decode each image once. If the decoded images take more than 10 GiB, the least recently used
    ones are removed. FRN_CACHE_LIMIT=20 allows 20 GiB; FRN_CACHE=DIR keeps the caches in a different folder. Files in
    that folder that frn did not write are never removed.
    """
    if context.invoked_subcommand is not None:
        return
    from frn.system.caches import cache_folder, cached_splits, features_size, limit_in_bytes

    folder, limit, splits, features = cache_folder(), limit_in_bytes(), cached_splits(), features_size()
    if as_json:
        images = [{"of": s.of, "images": s.images, "bytes": s.size, "used": round(s.used)} for s in splits]
        print_json({"folder": str(folder), "limit": limit, "images": images, "features": {"bytes": features}})
        return
    if splits:
        now = time.time()
        rows = [
            (s.of or "unknown", str(s.images), _size(s.size), f"{(now - s.used) / DAY:.1f} days ago") for s in splits
        ]
        print_table(("decoded images of", "images", "size", "last used"), rows)
    total = sum(split.size for split in splits)
    stdout().print(f"decoded images: {_size(total)} of {_size(limit)} allowed")
    stdout().print(f"feature maps: {_size(features)}")
    stdout().print(f"in {printable(str(folder))}")


@app.command()
@user_errors()
def clear() -> None:
    """Remove the caches. frn computes them again when it needs them."""
    from frn.system.caches import clear as remove

    stdout().print(f"freed {_size(remove())}")


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
