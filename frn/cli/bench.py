"""`frn bench`: speed beside the plain formulation, in one run."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.console import print_json, progress_bar, stdout, user_errors
from frn.shipped import DEFAULT_MODEL

if TYPE_CHECKING:
    from frn_tui.bench.measures import Measure

app = typer.Typer(no_args_is_help=True, help="Time things beside their plain formulation, in one run.")

Rounds = Annotated[int, typer.Option(min=1, help="Turns that each contestant gets.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]

IMAGES = ((64, 64), (480, 640))
"""Heights and widths of the images that a whole classifier is timed on."""


@app.callback()
def bench() -> None:
    """Ratios within one run are to be trusted, milliseconds are not."""
    # The BLAS libraries read these when they are loaded, which is later: every contestant gets one thread.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@app.command()
def head(
    d: Annotated[list[int] | None, typer.Option(min=1, help="Channels.", show_default="64 and 640")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1 and 5")] = None,
    rounds: Rounds = 15,
    as_json: AsJson = False,
) -> None:
    """The closed-form head beside the paper's listings: 5-way, 16 queries, r = 25, one thread."""
    with user_errors():
        from frn_export.head import head_graph
        from rich.table import Table

        from frn.bench.head import INITIAL, LISTINGS, time_head

        graph = head_graph(INITIAL).SerializeToString()
        timings = [time_head(channels, k, graph, rounds=rounds) for channels in d or (64, 640) for k in shot or (1, 5)]
    if as_json:
        print_json(
            [
                {
                    "d": timing.d,
                    "shot": timing.shape.shot,
                    "milliseconds": timing.milliseconds,
                    "times_as_fast": {listing: timing.times_as_fast(listing) for listing in LISTINGS},
                }
                for timing in timings
            ]
        )
        return
    table = Table("episode", "formulation", "ms", *(f"x {listing}" for listing in LISTINGS), box=None, pad_edge=False)
    for timing in timings:
        ratios = [timing.times_as_fast(listing) for listing in LISTINGS]
        for name, value in timing.milliseconds.items():
            faster = (f"{ratio[name]:.1f}" for ratio in ratios)
            table.add_row(f"d = {timing.d}, {timing.shape}", name, f"{value:.2f}", *faster)
    stdout().print(table)
    stdout().print("x: how many times as fast as that listing")


@app.command()
def infer(
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Images at once.", show_default="1 and 16")] = None,
    rounds: Rounds = 15,
    as_json: AsJson = False,
) -> None:
    """An exported model beside torch, and a whole classifier beside its extractor: 5 classes, 5 shots, one thread."""
    with user_errors():
        from frn_export.classifier import classifier_graph
        from frn_export.graphs import features_graph
        from rich.table import Table

        from frn.bench.infer import enroll_moths, time_classifier, time_extractor
        from frn.inference.extractor import Extractor
        from frn.model import load_model

        loaded = load_model(model)
        features = features_graph(loaded).SerializeToString()
        extractor = Extractor(features, model, trusted=True, device="cpu", threads=1)
        classifier = classifier_graph(features, enroll_moths(extractor)).SerializeToString()
        batches = {n: time_extractor(loaded, extractor, batch=n, rounds=rounds) for n in batch or (1, 16)}
        images = {
            (height, width): time_classifier(extractor, classifier, height=height, width=width, rounds=rounds)
            for height, width in IMAGES
        }
    if as_json:
        print_json(
            {
                "model": model,
                "extractor": [
                    {"batch": n, "milliseconds": ms, "times_as_fast": ms["torch"] / ms["onnxruntime"]}
                    for n, ms in batches.items()
                ],
                "classifier": [
                    {
                        "height": height,
                        "width": width,
                        "milliseconds": ms,
                        "times_as_long": ms["classifier"] / ms["extractor"],
                    }
                    for (height, width), ms in images.items()
                ],
            }
        )
        return
    table = Table("what", "ms", "beside", "ms", "ratio", box=None, pad_edge=False)
    for n, ms in batches.items():
        faster = f"{ms['torch'] / ms['onnxruntime']:.2f} times as fast"
        table.add_row(
            f"onnxruntime, {n} at once", f"{ms['onnxruntime']:.2f}", "torch, eager", f"{ms['torch']:.2f}", faster
        )
    for (height, width), ms in images.items():
        longer = f"{ms['classifier'] / ms['extractor']:.2f} times as long"
        table.add_row(
            f"classifier, {width} x {height}",
            f"{ms['classifier']:.2f}",
            "its extractor",
            f"{ms['extractor']:.2f}",
            longer,
        )
    stdout().print(table)


@app.command()
def tui(
    quick: Annotated[bool, typer.Option("--quick", help="Few turns and small folders: a try, no result.")] = False,
    as_json: AsJson = False,
) -> None:
    """The terminal app beside Textual's hello-world and its targets, on a pseudo-terminal; about two minutes."""
    with user_errors():
        from frn_tui.bench.measures import QUICK, Effort, Lab
        from frn_tui.bench.photos import draw

        effort = QUICK if quick else Effort()
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder, progress_bar("Measuring") as show:
            photos = draw(Path(folder), many=effort.many, hundreds=effort.hundreds, extra=effort.extra)
            measures = []
            for measure in Lab(photos, Path(folder), effort).measure():
                measures.append(measure)
                show(len(measures), 0)
    if as_json:
        print_json({"load": load, "measures": [_described(measure) for measure in measures]})
        return
    from rich.table import Table

    table = Table("", "what", "measured", "target", "hello-world", "how", "", box=None, pad_edge=False)
    for measure in measures:
        unit = f" {measure.unit}".rstrip()
        hello = "" if measure.hello is None else f"{measure.hello:.0f}{unit}"
        target = f"≤ {measure.limit:.0f}{unit}"
        verdict = "ok" if measure.ok else "short"
        table.add_row(measure.target, measure.what, f"{measure.value:.0f}{unit}", target, hello, measure.how, verdict)
    stdout().print(table)
    stdout().print(f"{os.cpu_count()} processors, {load:.1f} programs running before; targets are for two idle ones")


def _described(measure: "Measure") -> dict[str, object]:
    return {
        "target": measure.target,
        "what": measure.what,
        "measured": measure.value,
        "limit": measure.limit,
        "unit": measure.unit,
        "hello_world": measure.hello,
        "how": measure.how,
        "ok": measure.ok,
    }
