"""`frn bench`: speed beside the plain formulation, in one run."""

from typing import Annotated

import typer

from frn.cli.console import print_json, stdout, user_errors

app = typer.Typer(no_args_is_help=True, help="Time things beside their plain formulation, in one run.")


@app.callback()
def bench() -> None:
    """Ratios within one run are to be trusted, milliseconds are not."""


@app.command()
def head(
    d: Annotated[list[int] | None, typer.Option(min=1, help="Channels.", show_default="64 and 640")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1 and 5")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns that each formulation gets.")] = 15,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """The closed-form head beside the paper's listings: 5-way, 16 queries, r = 25, one thread."""
    with user_errors():
        import os

        # numpy's BLAS reads these when it is loaded; all formulations get one thread.
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        from rich.table import Table

        from frn.bench.head import time_head

        timings = [time_head(channels, k, rounds=rounds) for channels in d or (64, 640) for k in shot or (1, 5)]
    if as_json:
        print_json([{"d": t.d, "shot": t.shape.shot, "milliseconds": t.milliseconds} for t in timings])
        return
    table = Table("episode", *timings[0].milliseconds, box=None, pad_edge=False)
    for timing in timings:
        plain = min(value for name, value in timing.milliseconds.items() if name.startswith("paper"))
        cells = [f"{value:.2f} ms ({plain / value:.1f}x)" for value in timing.milliseconds.values()]
        table.add_row(f"d = {timing.d}, {timing.shape}", *cells)
    stdout().print(table)
    stdout().print("in brackets: how many times as fast as the faster of the paper's two listings")
