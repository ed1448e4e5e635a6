"""Several processes train one model together; here two, over gloo."""

import hashlib
import importlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from frn.data.pixel_cache import StoredImages
from frn.data.synthetic import draw_classes
from frn.episodes import Episode, EpisodeShape
from frn.errors import FrnError
from frn.evaluation.evaluate_model import EvaluationOptions, evaluate_images
from frn.evaluation.features import TorchExtractor
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.system import distributed
from frn.system.distributed import ProcessGroup, joined, restarted
from frn.training import launch, loop
from frn.training.launch import prepare_run
from frn.training.loop import train
from frn.training.presets import PRESETS, Preset, Schedule, find_preset
from frn.training.presets.preset import Pretraining, ValidationProtocol
from frn.training.runs.run import RunResult, RunSettings
from frn.training.runs.run_options import RunOptions

TINY = replace(
    find_preset("demo"),
    episode=EpisodeShape(way=3, shot=1, queries=2),
    schedule=Schedule(epochs=2, milestones=()),
    validation=ValidationProtocol(every=1, episodes=20),
)

PRETRAINING = replace(TINY, objective="frn-pretrain", pretraining=Pretraining(batch=8))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")


Work = Callable[[ProcessGroup, Path], object]
Launch = Callable[..., list[str]]

TIMEOUT = 120  # seconds after which ranks are killed, long enough for a busy machine


@pytest.fixture(scope="module")
def ranks() -> Iterator[Launch]:
    """Run functions in two processes started by torchrun's engine; return their results or their `FrnError`.

    The processes are forks of one fresh interpreter, because this one may have torch threads, for which a fork would
    wait.
    """
    command = [sys.executable, __file__]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def start(work: Work, folder: Path, restarts: int = 0) -> list[str]:
        answers = folder.parent / f"{folder.name}-{work.__name__}"
        answers.mkdir()
        assert parent.stdin
        assert parent.stdout
        parent.stdin.write(json.dumps([work.__name__, str(folder), str(answers), restarts]).encode() + b"\n")
        parent.stdin.flush()
        assert select.select([parent.stdout], [], [], TIMEOUT + 60)[0], "they hang"
        assert parent.stdout.readline() == b"done\n"
        return [path.read_text() for path in sorted(answers.glob("rank*"))]

    with parent:
        yield start
        os.killpg(parent.pid, signal.SIGKILL)


def serve() -> None:
    """Let torchrun's engine start ranks, once per line of input."""
    distributed.ANSWER = timedelta(seconds=1)  # on one machine
    importlib.import_module("torch._dynamo")  # optimisers import this, which would take a second in each fork
    for line in sys.stdin:
        if not (process := os.fork()):
            signal.alarm(TIMEOUT + 30)
            elastic(*json.loads(line))
            os._exit(0)
        os.waitpid(process, 0)
        print("done", flush=True)


def elastic(work: str, folder: str, answers: str, restarts: int) -> None:
    """Do the work of `torchrun --nproc-per-node 2 --max-restarts N` without starting interpreters."""
    wanted = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # torchrun then chooses a free port
        max_restarts=restarts,
        start_method="fork",
        logs_specs=DefaultLogsSpecs(log_dir=answers),
    )
    with suppress(ChildFailedError):
        elastic_launch(wanted, rank)(work, Path(folder), Path(answers))


def rank(work: str, folder: Path, answers: Path) -> None:
    """Run as one of the ranks."""
    signal.alarm(TIMEOUT)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the launcher's own handler is inherited, and may wait for 30 s
    try:
        with joined("cpu") as met:
            said = str(globals()[work](met, folder))
    except FrnError as error:
        said = f"error: {error}"
    except BaseException:
        said = traceback.format_exc()
    (answers / f"rank{os.environ['RANK']}").write_text(said)
    if said.startswith("error"):
        os._exit(1)  # the command also exits with 1


def drawn_splits(*_: object) -> tuple[StoredImages, StoredImages]:
    return draw_classes(4, 9, size=32, seed=1), draw_classes(3, 18, size=32, seed=2)


def run(
    out: Path,
    met: ProcessGroup,
    *,
    preset: Preset = TINY,
    steps: int | None = None,
    resume: bool = False,
    seed: int = 0,
    report: Callable[[object], None] = lambda event: None,
) -> RunResult:
    images, val = drawn_splits()
    left = [steps]

    def stop() -> bool:
        if left[0] is not None:
            left[0] -= 1
        return left[0] == 0

    settings = RunSettings(seed=seed, ranks=met, resume=resume)
    return train(preset, images, val, out, settings, report=report, stop=stop)


def digest(model: Model) -> str:
    state = model.state_dict()
    return hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


def watched(met: ProcessGroup, out: Path, preset: Preset = TINY) -> str:
    """Train, and return the episodes of each epoch, the reports and the final weights."""
    seen: list[tuple[int, str]] = []
    reports: list[str] = []
    models: list[Model] = []
    augmented = loop._Trainer.augmented

    def note(trainer: loop._Trainer, sampled: Episode, *rest: object) -> object:
        seen.append((trainer.position.epoch, sampled.tobytes().hex()))
        models[:] = [trainer.model]
        return augmented(trainer, sampled, *rest)  # type: ignore[arg-type]

    with patch.object(loop._Trainer, "augmented", note):
        run(out, met, preset=preset, report=lambda event: reports.append(repr(event)))
    return json.dumps({"seen": seen, "reports": reports, "weights": digest(models[0])})


def pretrained(met: ProcessGroup, out: Path) -> str:
    return watched(met, out, PRETRAINING)


@pytest.mark.parametrize("work", [watched, pytest.param(pretrained, marks=pytest.mark.nightly)])
def test_ranks_take_different_steps_and_end_with_the_same_weights(ranks: Launch, tmp_path: Path, work: Work) -> None:
    first, second = map(json.loads, ranks(work, tmp_path / "two"))
    assert first["weights"] == second["weights"]
    assert first["reports"] == second["reports"], "losses are means over all ranks"
    ends = [report for report in first["reports"] if re.search(r"\bstep=(\d+), steps_in_epoch=\1,", report)]
    assert len(ends) == TINY.schedule.epochs, "each epoch has a last step"
    alone = json.loads(str(work(ProcessGroup(), tmp_path / "one")))["seen"]
    together = [step for pair in zip(first["seen"], second["seen"], strict=True) for step in pair]
    expected = []
    for epoch in range(TINY.schedule.epochs):
        own = [entry for entry in alone if entry[0] == epoch]
        expected += own[: len(own) // 2 * 2]
    assert together == expected, "the same stream as one process draws"


def one_step(met: ProcessGroup, out: Path) -> int:
    return run(out, met, steps=1).position.step


def test_a_run_on_two_ranks_can_be_resumed_on_one(ranks: Launch, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert ranks(one_step, out) == ["2", "2"], "a step of two ranks takes two episodes"
    ended = run(out, ProcessGroup(), resume=True)
    assert ended.finished
    assert ended.position.epoch == TINY.schedule.epochs


def seeded_by_rank(met: ProcessGroup, out: Path) -> RunResult:
    return run(out, met, seed=met.rank)


def test_ranks_that_disagree_are_reported(ranks: Launch, tmp_path: Path) -> None:
    said = ranks(seeded_by_rank, tmp_path / "run")
    assert all(
        line.startswith("error: rank 1 has different data, settings or frn version from rank 0") for line in said
    )


def other_photos(met: ProcessGroup, out: Path) -> None:
    images, val = drawn_splits()
    train(TINY, replace(images, checksum=met.rank), val, out, RunSettings(ranks=met))


@pytest.mark.nightly
def test_ranks_with_different_photos_of_the_same_name_are_reported(ranks: Launch, tmp_path: Path) -> None:
    said = ranks(other_photos, tmp_path / "run")
    assert all(line.startswith("error: rank 1 has different data") for line in said)
    assert ["{'checksums of the photos': [1, 0]}; {'checksums of the photos': [0, 0]}" in line for line in said] == [
        True,
        True,
    ]


def commanded(met: ProcessGroup, out: Path, dies: bool = False) -> str:
    """Train like `frn train`; a rank may be killed once, in the second epoch."""

    def report(event: object) -> None:
        if dies and met.rank == 1 and not restarted() and getattr(event, "epoch", 0) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with patch.dict(PRESETS, demo=TINY), patch.object(launch, "load_splits", drawn_splits):
        prepare_run(RunOptions(preset="demo", out=out, device="cpu"), ranks=met).train(report, lambda: False)
    return "started anew" if restarted() else "ran through"


def killed_once(met: ProcessGroup, out: Path) -> str:
    return commanded(met, out, dies=True)


@pytest.mark.nightly
def test_torchrun_restarts_ranks_from_the_last_checkpoint(ranks: Launch, tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert ranks(killed_once, killed, restarts=1) == ["started anew"] * 2
    assert ranks(commanded, undisturbed) == ["ran through"] * 2
    assert (killed / "metrics.jsonl").read_text() == (undisturbed / "metrics.jsonl").read_text(), (
        "no step lost or twice"
    )
    weights = [load_file(out / "last.safetensors") for out in (killed, undisturbed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


@pytest.mark.nightly
def test_torchrun_does_not_resume_a_run_that_was_refused(ranks: Launch, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last.safetensors").write_bytes(b"an earlier run")
    said = ranks(commanded, tmp_path / "run", restarts=1)
    assert (
        said[0]
        == f"error: {tmp_path / 'run'}: already contains a run. Add --resume to continue it, or give another --out."
    )


def evaluated(met: ProcessGroup, out: Path) -> str:
    images = draw_classes(6, 13, size=32, seed=3)  # the shares are 39 of 78 images, and 12 and 13 of 25 episodes
    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method="frn", last_pool=False, transform=EvaluationTransform(size=32))
    extractor = TorchExtractor(Model(config).eval())
    options = EvaluationOptions(model="", data=out, way=3, shot=[1], queries=4, episodes=25)
    (result,) = evaluate_images(extractor, images, options, ranks=met)
    return f"{result['accuracy']:.6f} {result['ci95']:.6f}"


def test_two_ranks_give_the_same_evaluation_as_one(ranks: Launch, tmp_path: Path) -> None:
    assert ranks(evaluated, tmp_path / "run") == [evaluated(ProcessGroup(), tmp_path)] * 2


def one_dies(met: ProcessGroup, out: Path) -> str:
    if met.rank == 1:
        os._exit(9)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's message, which may come before the rank's own
    torch.distributed.barrier()
    return "went on"


@pytest.mark.nightly
def test_a_dead_rank_gives_a_one_line_error(ranks: Launch, tmp_path: Path) -> None:
    (said,) = ranks(one_dies, tmp_path / "run")
    assert said.startswith("error: rank 0 of 2 lost another rank")
    assert "--resume" in said
    assert "\n" not in said


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve()
