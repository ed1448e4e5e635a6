"""Several processes that train one model together: two of them here, by gloo."""

import hashlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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


def ranks(work: Callable[[Ranks], object], world: int = 2) -> list[str]:
    """Run in forks that have met; what each has to say, or its `FrnError`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [_child(work, rank, world, port) for rank in range(world)]
    said = []
    for process, reading in children:
        with os.fdopen(reading) as pipe:
            said.append(pipe.read())
        os.waitpid(process, 0)
    return said


def _child(work: Callable[[Ranks], object], rank: int, world: int, port: int) -> tuple[int, int]:
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
            said = str(work(met))
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


def test_ranks_take_other_episodes_and_end_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from frn.training import loop

    seen: list[tuple[int, str]] = []
    gather = loop._Trainer.augmented
    models: list[Model] = []

    def note(trainer: loop._Trainer, drawn: Episode, *rest: object) -> object:
        seen.append((trainer.position.epoch, drawn.tobytes().hex()))
        models[:] = [trainer.model]
        return gather(trainer, drawn, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(loop._Trainer, "augmented", note)

    def work(met: Ranks) -> str:
        seen.clear()
        run(tmp_path / "two", met)
        return json.dumps({"seen": seen, "weights": digest(models[0])})

    first, second = map(json.loads, ranks(work))
    assert first["weights"] == second["weights"]
    seen.clear()
    run(tmp_path / "one", Ranks())
    together = [tuple(episode) for pair in zip(first["seen"], second["seen"], strict=True) for episode in pair]
    expected = []
    for epoch in range(TINY.schedule.epochs):
        own = [entry for entry in seen if entry[0] == epoch]
        expected += own[: len(own) // 2 * 2]
    assert together == expected, "the same stream as one process draws"


def test_a_run_of_two_ranks_is_resumed_by_one(tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = ranks(lambda met: run(out, met, steps=1).position.step)
    assert said == ["2", "2"], "a step of two ranks takes two episodes"
    ended = run(out, Ranks(), resume=True)
    assert ended.finished
    assert ended.position.epoch == TINY.schedule.epochs


def test_ranks_that_disagree_are_told_so(tmp_path: Path) -> None:
    said = ranks(lambda met: run(tmp_path / "run", met, seed=met.rank))
    assert all(
        line.startswith("error: rank 1 has other data, settings or another version than rank 0") for line in said
    )


def test_two_ranks_evaluate_as_one_does() -> None:
    images = draw_classes(6, 13, size=32, seed=3)  # 78 images: shares of 39; 25 episodes: of 12 and 13
    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method="frn", last_pool=False, transform=EvaluationTransform(size=32))
    extractor = TorchExtractor(Model(config).eval())
    plan = EvaluationPlan(shapes=[EpisodeShape(way=3, shot=1, queries=4)], episodes=25)

    def work(met: Ranks) -> str:
        (result,) = evaluate_images(extractor, images, replace(plan, ranks=met))
        return f"{result['accuracy']} {result['ci95']}"

    assert ranks(work) == [work(Ranks())] * 2


def test_a_rank_that_dies_is_told_in_one_line(tmp_path: Path) -> None:
    def work(met: Ranks) -> object:
        if met.rank == 1:
            os._exit(9)
        met.wait()
        return "went on"

    said, _ = ranks(work)
    assert said.startswith("error: rank 0 of 2 has lost another one")
    assert "--resume" in said
    assert "\n" not in said
