"""Measure what each head costs: processor time per photo and bytes per class, beside its accuracy in `cub-small`.

    python assets/benchmarks/heads.py

The backbone is Conv-4 at 84 x 84 pixels (r = 25, d = 64), with 5 classes of 5 photos. Each head is exported and runs in
onnxruntime with one thread. The heads take turns on 16 maps; the time is the best of 200 turns. The bytes are the
growth of the file for each additional class. The weights are untrained, which affects neither time nor bytes. The
accuracy is the mean over the seeds in `cub-small.json`. The table is printed and, if it has all heads, written to
`heads.md`; `assets/screenshots/plots.py` draws it.
"""

import json
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import onnx
import onnxruntime
import torch
import typer
from bench import run
from frn_export.graphs.builder import FLOAT, GraphBuilder
from frn_export.graphs.classifier import scores_graph
from frn_export.graphs.enrolled_head import HeadClasses, write_logits
from frn_export.parity import verified_head

from frn.cli.shell.console import note, stdout
from frn.errors import FrnError
from frn.heads import HEADS
from frn.heads.frn import FRNHead
from frn.images.transforms import EvaluationTransform
from frn.inference.onnx_runtime import open_session
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.ridge.enrolment import enroll
from frn.ridge.parameters import HeadParameters
from frn.system.hardware import processor

TABLE = Path(__file__).with_name("cub-small.json")
SHOTS, QUERIES, TURNS = 5, 16, 200


def accuracies() -> dict[str, float]:
    """Return the 5-shot accuracy of each method in the table."""
    found: dict[str, list[float]] = {}
    for row in json.loads(TABLE.read_text())["rows"]:
        name = row["row"].removeprefix("cub-").rstrip("-012")
        if row["row"].startswith("cub-") and not row["row"].endswith("1shot"):
            found.setdefault(name, []).append(row["figures"]["5"]["accuracy"])
    return {name: statistics.mean(values) for name, values in found.items()}


def classes_graph(model: Model, head: bytes, way: int) -> bytes:
    """File of enrolled classes with random features."""
    h, w = model.grid
    maps = np.random.default_rng(0).random((way, SHOTS, h * w, model.d), dtype=np.float32)
    graph = GraphBuilder("s_")
    shape = ("n", h * w, model.d)
    if isinstance(model.head, FRNHead):
        own = HeadParameters.of(model.head)
        # these are the fields of an extractor that the graph needs
        sizes: Any = SimpleNamespace(grid=model.grid, shape=(h * w, model.d), tta="none")
        return scores_graph(
            sizes, {str(i): enroll(each, own) for i, each in enumerate(maps)}, own.gamma
        ).SerializeToString()
    logits = write_logits(graph, HeadClasses(head, {str(i): each for i, each in enumerate(maps)}), "feature_map")
    graph.node("Identity", logits, output="logits")
    built: onnx.ModelProto = graph.model(
        {"feature_map": (FLOAT, shape)}, {"logits": (FLOAT, ("n", way))}, {}, "x", kind="x"
    )
    return built.SerializeToString()


def main(heads: Annotated[list[str] | None, typer.Argument(help="Heads to measure.")] = None) -> None:
    """Measure heads, all by default, and print the table."""
    sizes: dict[str, int] = {}
    sessions = {}
    for method in heads or HEADS:
        torch.manual_seed(0)
        model = Model(ModelConfig(backbone="conv4", method=method, transform=EvaluationTransform(size=84))).eval()
        try:
            head = b"" if method == "frn" else verified_head(model)[0]
        except FrnError as error:
            note(f"{method}: {error}")
            continue
        small, large = (classes_graph(model, head, way) for way in (5, 10))
        h, w = model.grid
        queries = np.random.default_rng(1).random((QUERIES, h * w, model.d), dtype=np.float32)
        sizes[method] = (len(large) - len(small)) // 5
        sessions[method] = open_session(small, method, device="cpu", threads=1), {"feature_map": queries}
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(TURNS):
        for method, (session, inputs) in sessions.items():
            began = time.process_time()
            session.run(None, inputs)
            best[method] = min(best[method], time.process_time() - began)
    known, rows = accuracies(), []
    for method, seconds in best.items():
        accuracy = f"{known[method]:.1f}" if method in known else "not measured"
        rows.append(f"| `{method}` | {seconds / QUERIES * 1e6:.0f} | {sizes[method]:,} | {accuracy} |")
    head_row = "| head | microseconds of a photo | bytes of a class | 5-shot accuracy on birds |\n|---|---|---|---|\n"
    table = head_row + "\n".join(rows)
    stdout().print(table, markup=False)
    if heads is None:
        versions = f"onnxruntime {onnxruntime.__version__}, {processor()}, {time.strftime('%Y-%m-%d')}"
        text = f"# What each head costs\n\n`python assets/benchmarks/heads.py`: {versions}, one thread.\n\n{table}\n"
        TABLE.with_name("heads.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
