"""Several processes that train one model together: two of them here, by gloo."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from frn.data.synthetic import draw_classes
from frn.episodes import Episode, EpisodeShape
from frn.errors import FrnError
from frn.evaluation.features import TorchExtractor
from frn.evaluation.ranks import Ranks, joined
from frn.evaluation.report import EvaluationPlan, evaluate_images
from frn.images import EvaluationTransform
from frn.model import Model
from frn.model_file import ModelConfig
from frn.training import loop
from frn.training.loop import train
from frn.training.presets import Schedule, demo
from frn.training.presets.preset import ValidationProtocol
from frn.training.run import RunResult, RunSettings

TINY = replace(
    demo(),
    episode=EpisodeShape(way=3, shot=1, queries=2),
    schedule=Schedule(epochs=2, milestones=()),
    validation=ValidationProtocol(every=1, episodes=20),
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")


Work = Callable[[Ranks, Path], object]


def ranks(work: Work, folder: Path) -> list[str]:
    """Run in two processes that have met; what each has to say, or its `FrnError`.

    They are forks of a fresh interpreter: this one may have threads of torch's, which a fork would wait for.
    """
    command = [sys.executable, __file__, work.__name__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said: list[str] = json.loads(done.stdout)
    return said


def forked(work: Work, folder: Path, world: int = 2) -> list[str]:
    """What each of several forks of this process has to say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [_child(work, folder, rank, world, port) for rank in range(world)]
    said = []
    for process, reading in children:
        with os.fdopen(reading) as pipe:
            said.append(pipe.read())
        os.waitpid(process, 0)
    return said


def _child(work: Work, folder: Path, rank: int, world: int, port: int) -> tuple[int, int]:
    reading, writing = os.pipe()
    if process := os.fork():
        os.close(writing)
        return process, reading
    signal.alarm(300)
    said = ""
    try:
        os.environ |= {
            "RANK": f"{rank}",
            "WORLD_SIZE": f"{world}",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": f"{port}",
        }
        with joined("cpu") as met:
            said = str(work(met, folder))
    except FrnError as error:
        said = f"error: {error}"
    except BaseException:
        said = traceback.format_exc()
    finally:
        os.write(writing, said.encode())
        os._exit(0)


def run(out: Path, met: Ranks, *, steps: int | None = None, resume: bool = False, seed: int = 0) -> RunResult:
    images, val = draw_classes(4, 9, size=32, seed=1), draw_classes(3, 18, size=32, seed=2)
    left = [steps]

    def stop() -> bool:
        if left[0] is not None:
            left[0] -= 1
        return left[0] == 0

    settings = RunSettings(seed=seed, ranks=met, resume=resume)
    return train(TINY, images, val, out, settings, stop=stop)


def digest(model: Model) -> str:
    state = model.state_dict()
    return hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


def watched(met: Ranks, out: Path) -> str:
    """Train, and say which episodes were taken in which epoch, and with which weights it ended."""
    seen: list[tuple[int, str]] = []
    models: list[Model] = []
    augmented = loop._Trainer.augmented

    def note(trainer: loop._Trainer, drawn: Episode, *rest: object) -> object:
        seen.append((trainer.position.epoch, drawn.tobytes().hex()))
        models[:] = [trainer.model]
        return augmented(trainer, drawn, *rest)  # type: ignore[arg-type]

    with patch.object(loop._Trainer, "augmented", note):
        run(out, met)
    return json.dumps({"seen": seen, "weights": digest(models[0])})


def test_ranks_take_other_episodes_and_end_with_the_same_weights(tmp_path: Path) -> None:
    first, second = map(json.loads, ranks(watched, tmp_path / "two"))
    assert first["weights"] == second["weights"]
    alone = json.loads(watched(Ranks(), tmp_path / "one"))["seen"]
    together = [episode for pair in zip(first["seen"], second["seen"], strict=True) for episode in pair]
    expected = []
    for epoch in range(TINY.schedule.epochs):
        own = [entry for entry in alone if entry[0] == epoch]
        expected += own[: len(own) // 2 * 2]
    assert together == expected, "the same stream as one process draws"


def one_step(met: Ranks, out: Path) -> int:
    return run(out, met, steps=1).position.step


def test_a_run_of_two_ranks_is_resumed_by_one(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert ranks(one_step, out) == ["2", "2"], "a step of two ranks takes two episodes"
    ended = run(out, Ranks(), resume=True)
    assert ended.finished
    assert ended.position.epoch == TINY.schedule.epochs


def seeded_by_rank(met: Ranks, out: Path) -> RunResult:
    return run(out, met, seed=met.rank)


def test_ranks_that_disagree_are_told_so(tmp_path: Path) -> None:
    said = ranks(seeded_by_rank, tmp_path / "run")
    assert all(
        line.startswith("error: rank 1 has other data, settings or another version than rank 0") for line in said
    )


def evaluated(met: Ranks, out: Path) -> str:
    images = draw_classes(6, 13, size=32, seed=3)  # 78 images: shares of 39; 25 episodes: of 12 and 13
    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method="frn", last_pool=False, transform=EvaluationTransform(size=32))
    extractor = TorchExtractor(Model(config).eval())
    plan = EvaluationPlan(shapes=[EpisodeShape(way=3, shot=1, queries=4)], episodes=25, ranks=met)
    (result,) = evaluate_images(extractor, images, plan)
    return f"{result['accuracy']:.6f} {result['ci95']:.6f}"


def test_two_ranks_evaluate_as_one_does(tmp_path: Path) -> None:
    assert ranks(evaluated, tmp_path) == [evaluated(Ranks(), tmp_path)] * 2


def one_dies(met: Ranks, out: Path) -> str:
    if met.rank == 1:
        os._exit(9)
    met.wait()
    return "went on"


def test_a_rank_that_dies_is_told_in_one_line(tmp_path: Path) -> None:
    said, _ = ranks(one_dies, tmp_path)
    assert said.startswith("error: rank 0 of 2 has lost another one")
    assert "--resume" in said
    assert "\n" not in said


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(forked(globals()[sys.argv[1]], Path(sys.argv[2]))))
