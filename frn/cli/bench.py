"""`frn bench`: speed and memory beside the plain formulation, in one run."""

import os
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from frn.cli.bench_loops import evaluate, train
from frn.cli.bench_photos import finetune, temperature
from frn.cli.shell.console import print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device
from frn.cli.shell.output import AsJson, Format, chosen_format, printed, rows_of
from frn.models.zoo import DEFAULT_MODEL

if TYPE_CHECKING:
    from frn_tui_bench.measures import Measure

app = typer.Typer(no_args_is_help=True, help="Time things beside their plain formulation, in one run.")

Rounds = Annotated[int, typer.Option(min=1, help="Turns that each contestant gets.")]
AnyRounds = Annotated[
    int | None,
    typer.Option("--rounds", min=1, help="Turns that each contestant gets.", show_default="15, and on for 3 seconds"),
]
Phase = Literal["train", "test"]

IMAGES = ((64, 64), (480, 640))
"""Heights and widths of the photos that a whole classifier is timed on, beside an image of the model's own size."""


@app.callback()
def bench() -> None:
    """Ratios within one run are to be trusted, milliseconds are not."""
    # The BLAS libraries read these when they are loaded, which is later: every contestant gets one thread.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@app.command()
def head(
    d: Annotated[list[int] | None, typer.Option(min=1, help="Channels.", show_default="64 and 640")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1, 5 and 20")] = None,
    r: Annotated[list[int] | None, typer.Option(min=1, help="Locations of a map.", show_default="25")] = None,
    way: Annotated[list[int] | None, typer.Option(min=2, help="Classes.", show_default="5")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="With gradients, as in training.")] = False,
    rounds: AnyRounds = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """The closed-form head beside the paper's formulations: 16 queries per class, 15 in training; one thread."""
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn_export.graphs.head import head_graph

        from frn.bench.head import INITIAL, PLAIN, HeadCase, time_head

        graph = head_graph(INITIAL).SerializeToString()
        cases = [
            HeadCase(*sizes, backward=backward)
            for sizes in product(d or (64, 640), shot or (1, 5, 20), r or (25,), way or (5,))
        ]
        timings = [time_head(case, graph, rounds=rounds) for case in cases]
    if printed(wants, [timing.as_json() for timing in timings]):
        return
    print_table(
        ("episode", "formulation", "ms", *(f"x {plain}" for plain in PLAIN)),
        (
            (
                f"d = {t.case.d}, r = {t.case.r}, {t.case.shape}",
                name,
                f"{ms:.2f}",
                *(f"{t.times_as_fast(plain)[name]:.1f}" for plain in PLAIN),
            )
            for t in timings
            for name, ms in t.milliseconds.items()
        ),
    )
    stdout().print("x: how many times as fast as that plain formulation; left to right: Eq. 8 without a d x d matrix")


@app.command()
def classes(
    way: Annotated[
        list[int] | None, typer.Option(min=1, help="Enrolled classes.", show_default="100, 1,000 and 10,000")
    ] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Photos of each.", show_default="1, 5 and 20")] = None,
    d: Annotated[int, typer.Option(min=1, help="Channels.")] = 64,
    r: Annotated[int, typer.Option(min=1, help="Locations of a map.")] = 25,
    photos: Annotated[list[int] | None, typer.Option(min=1, help="Scored at once.", show_default="1 and 16")] = None,
    rounds: AnyRounds = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Photos against many enrolled classes, from their feature maps on, beside one class after the other: one thread.

    What the classes take in memory, and what scoring takes beside them; 10,000 of 5 photos at d = 640 take 3 GB.
    """
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.bench.classes import OURS, PLAIN, ClassesCase, time_classes

        cases = [
            ClassesCase(d=d, r=r, shot=k, way=n, photos=at_once)
            for k, n, at_once in product(shot or (1, 5, 20), way or (100, 1000, 10_000), photos or (1, 16))
        ]
        timings = []
        with progress_bar("measuring") as show:
            for case in cases:
                timings.append(time_classes(case, rounds=rounds))
                show(len(timings), len(cases))
    found = [timing.as_json() for timing in timings]
    if printed(wants, found):
        return
    print_table(
        ("classes", "at once", "ms a photo", PLAIN, "times as fast", "MB", "more MB"),
        (
            (
                f"{t.case.way:,} of {t.case.shot}",
                str(t.case.photos),
                f"{t.milliseconds[OURS]:,.2f}",
                f"{t.milliseconds[PLAIN]:,.2f}",
                f"{t.times_as_fast:,.1f}",
                f"{t.megabytes:,.0f}",
                f"{t.more_megabytes:,.0f}",
            )
            for t in timings
        ),
    )
    stdout().print(f"d = {d}, r = {r}; MB: of the enrolled classes, and what scoring takes beside them at most")


@app.command()
def infer(
    model: Annotated[str, typer.Option(help="Model file, run folder or shipped name.")] = DEFAULT_MODEL,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Images at once.", show_default="1 and 16")] = None,
    way: Annotated[int, typer.Option(min=1, help="Classes of the classifier.")] = 5,
    rounds: AnyRounds = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """An exported model beside torch, and a whole classifier beside its parts: 5 shots, one thread."""
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn_export.graphs.backbone import features_graph
        from frn_export.graphs.classifier import classifier_graph

        from frn.bench.infer import enroll_moths, time_classifier, time_extractor
        from frn.inference.extractor import Extractor
        from frn.models.model import load_model

        loaded = load_model(model)
        features = features_graph(loaded).SerializeToString()
        extractor = Extractor(features, model, trusted=True, device="cpu", threads=1)
        enrolled = enroll_moths(extractor, way)
        classifier = classifier_graph(features, enrolled).SerializeToString()
        batches, images, rows = [], [], []
        for n in batch or (1, 16):
            ms = time_extractor(loaded, extractor, batch=n, rounds=rounds)
            ours, torch, faster = ms["onnxruntime"], ms["torch"], ms["torch"] / ms["onnxruntime"]
            batches.append({"batch": n, "milliseconds": ms, "times_as_fast": faster})
            what, ratio = f"onnxruntime, {n} at once", f"{faster:.2f} times as fast"
            rows.append((what, f"{ours:.2f}", "torch, eager", f"{torch:.2f}", ratio))
        for height, width in ((extractor.transform.size,) * 2, *IMAGES):
            ms = time_classifier(extractor, classifier, enrolled, height=height, width=width, rounds=rounds)
            longer = {name: ms["classifier"] / ms[name] for name in ("extractor", "library")}
            images.append({"height": height, "width": width, "milliseconds": ms, "times_as_long": longer})
            what, whole = f"classifier, {width} x {height}", f"{ms['classifier']:.2f}"
            for name, beside in (("extractor", "its extractor"), ("library", "frn classify's way")):
                rows.append((what, whole, beside, f"{ms[name]:.2f}", f"{longer[name]:.2f} times as long"))
    sizes = {"way": way, "megabytes": len(classifier) / 1e6}
    found = {"model": model, **sizes, "extractor": batches, "classifier": images}
    if not printed(wants, found, rows_of([*batches, *images])):
        print_table(("what", "ms", "beside", "ms", "ratio"), rows)
        stdout().print(f"classifier.onnx of {way:,} classes: {sizes['megabytes']:,.1f} MB")


@app.command()
def emd(
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1 and 5")] = None,
    phase: Annotated[Phase | None, typer.Option(help="One of both.", show_default=False)] = None,
    d: Annotated[int, typer.Option(min=1, help="Channels.")] = 640,
    r: Annotated[int, typer.Option(min=1, help="Locations of a map.")] = 25,
    whole: Annotated[bool, typer.Option("--whole", help="From images of 84 x 84 on, ResNet-12 included.")] = False,
    sfc_passes: Annotated[int, typer.Option(min=1, help="Of DeepEMD's fit to several shots; its authors' 100.")] = 100,
    rounds: Rounds = 3,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """FRN beside DeepEMD (the extra `emd`): 5-way, 15 queries in training, 16 in testing, one thread.

    The heads alone, from random feature maps on; with `--whole` episodes as the paper times them.
    """
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.bench.emd import OURS, Images, Maps, require_solvers, time_emd
        from frn.errors import FrnError

        if whole and (d, r) != (640, 25):
            raise FrnError("ResNet-12 makes maps of 640 channels at 25 locations. Leave --whole out for others.")
        inputs = Images() if whole else Maps(d=d, r=r)
        phases: tuple[Phase, ...] = (phase,) if phase else ("train", "test")
        require_solvers(phases)
        asked = product(phases, shot or (1, 5))
        timings = [time_emd(name, k, inputs=inputs, rounds=rounds, sfc_passes=sfc_passes) for name, k in asked]
    if printed(wants, [timing.as_json() for timing in timings]):
        return
    print_table(
        ("phase", "episode", "head", "ms", "x frn, torch", "published ms"),
        (
            (t.phase, str(t.shape), name, f"{ms:,.1f}", f"{ms / t.milliseconds[OURS]:,.1f}", t.published.get(name, ""))
            for t in timings
            for name, ms in t.milliseconds.items()
        ),
    )
    here = "with ResNet-12" if whole else "the heads alone"
    stdout().print(
        f"{here}; x: how many times as long. Published: on a GPU, with ResNet-12, and qpth in the place of POT"
    )


@app.command()
def memory(
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1 and 5")] = None,
    side: Annotated[list[int] | None, typer.Option(help="Of the maps: 5 or 10.", show_default="5 and 10")] = None,
    head_only: Annotated[
        bool, typer.Option("--head-only", help="From feature maps on, without Conv-4; any side.")
    ] = False,
    d: Annotated[int, typer.Option(min=1, help="Channels, with --head-only.")] = 64,
    way: Annotated[int | None, typer.Option(min=2, help="Classes.", show_default="30 and 20, as in the paper")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query images per class.")] = 15,
    device: Device = "auto",
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Peak memory of a training step: CTX beside FRN, Conv-4 at 84 x 84, each in a process of its own.

    The 10 x 10 maps take up to 8 GB.
    """
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn.bench.memory import CONTESTANTS, PUBLISHED, MemoryCase, measure_memory
        from frn.errors import FrnError
        from frn.system.precision import choose_device

        where = choose_device(device).type
        sides = side or (5, 10)
        if not head_only and (d != 64 or set(sides) - {5, 10}):
            raise FrnError("Conv-4 makes maps of 64 channels, 5 x 5 or 10 x 10. Add --head-only for others.")
        cases = [
            MemoryCase(part="head" if head_only else "step", r=n * n, shot=k, d=d, way=way, queries=queries)
            for n in sides
            for k in shot or (1, 5)
        ]
        published = PUBLISHED if not head_only and way is None and queries == 15 else {}
        measured, rows = [], []
        with progress_bar("measuring") as show:
            for c, name in product(cases, CONTESTANTS):
                megabytes = measure_memory(c, name, "cuda" if where == "cuda" else "cpu")
                paper = published.get(name, {}).get((c.r, c.shot))
                episode = {"part": c.part, "r": c.r, "d": c.d, "way": c.classes, "shot": c.shot}
                measured.append({**episode, "head": name, "megabytes": megabytes, "published": paper})
                shape = f"{c.classes}-way {c.shot}-shot"
                rows.append((str(c.r), str(c.d), shape, name, f"{megabytes:,.0f}", f"{paper or ''}"))
                show(len(measured), len(cases) * len(CONTESTANTS))
    if printed(wants, measured):
        return
    print_table(("r", "d", "episode", "head", "MB", "published MB"), rows)
    what = "torch's peak on the GPU" if where == "cuda" else "peak of a fresh process, less its libraries"
    stdout().print(f"MB: {what}. Published: all that nvidia-smi saw")


app.command()(train)
app.command("eval")(evaluate)
app.command()(finetune)
app.command()(temperature)


@app.command()
def tui(
    quick: Annotated[bool, typer.Option("--quick", help="Few turns and small folders: a try, no result.")] = False,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """The terminal app beside Textual's hello-world and its targets, on a pseudo-terminal; about two minutes."""
    with user_errors():
        wants = chosen_format(form, as_json)
        try:
            from frn_tui_bench.measures import QUICK, Effort, Lab
            from frn_tui_bench.photos import draw
        except ModuleNotFoundError as error:
            from frn.errors import FrnError

            raise FrnError("`frn bench tui` needs a checkout of the repository: packages come without it") from error

        effort = QUICK if quick else Effort()
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder, progress_bar("Measuring") as show:
            sizes = {"many": effort.many, "hundreds": effort.hundreds}
            photos = draw(Path(folder), **sizes, extra=effort.extra, thousand=effort.thousand)
            measures = []
            for measure in Lab(photos, Path(folder), effort).measure():
                measures.append(measure)
                show(len(measures), 0)
    described = [_described(measure) for measure in measures]
    if printed(wants, {"load": load, "measures": described}, described):
        return
    rows = []
    for measure in measures:
        unit = f" {measure.unit}".rstrip()
        hello = "" if measure.hello is None else f"{measure.hello:.0f}{unit}"
        value, limit = f"{measure.value:.0f}{unit}", f"≤ {measure.limit:.0f}{unit}"
        rows.append((measure.target, measure.what, value, limit, hello, measure.how, "ok" if measure.ok else "short"))
    print_table(("", "what", "measured", "target", "hello-world", "how", ""), rows)
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
