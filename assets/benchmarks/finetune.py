"""Measure the accuracy before and after `frn finetune`, on further photos of the same classes.

Each draw takes random classes from a pool of class folders, some photos of each for `frn finetune`, and others for the
test. Both models enroll the same photos as `frn classify` does, with lambda and gamma chosen for them.
"""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from bench import AsJson, run
from bench.photos import Classes, Pools, draw_classes, pool_roots, pooled_classes
from numpy.typing import NDArray

from frn.cli.shell.console import note, print_json, print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device
from frn.estimator.few_shot import FewShotClassifier
from frn.estimator.finetuning import finetune, write_finetuned
from frn.evaluation.accuracy import Accuracy, summarise
from frn.models.zoo import DEFAULT_MODEL, resolve


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """Accuracy of one draw on its test photos in percent, before and after fine-tuning, and the expected gain."""

    pool: str
    seed: int
    expected: Accuracy
    """Gain that `frn finetune` reports."""
    before: Accuracy
    after: Accuracy
    gain: Accuracy
    """Difference on the same test photos, for the fine-tuned model even if it is not worth it."""
    is_worth_it: bool
    seconds: float
    """Time from the photos to the fine-tuned model, of the processor."""

    @property
    def row(self) -> tuple[str, ...]:
        """Return pool, seed, test accuracy, gain, expected gain, decision and seconds as text."""
        gains = (f"{gain.mean:+.1f} ± {gain.ci95:.1f}" for gain in (self.gain, self.expected))
        tested = f"{self.before.mean:.1f} → {self.after.mean:.1f}"
        return (self.pool, str(self.seed), tested, *gains, "yes" if self.is_worth_it else "no", f"{self.seconds:.0f}")


def measure_gain(pool: str, model: str, seed: int, count: int, photos: int, tests: int, device: Device) -> Gain:
    """Fine-tune a model for a draw of classes and test both. Raises FrnError if the pool is too small."""
    drawn = draw_classes(pooled_classes(pool_roots(pool)), count, photos + tests, seed, least=photos + tests)
    rng = np.random.default_rng(seed)
    mixed = {name: [files[i] for i in rng.permutation(len(files))] for name, files in drawn.items()}
    own = {name: sorted(files[:photos]) for name, files in mixed.items()}
    held_out = {name: files[photos:] for name, files in mixed.items()}
    with tempfile.TemporaryDirectory() as place:
        began, path = time.process_time(), Path(place) / "tuned.safetensors"
        found = finetune(model, own, device)
        write_finetuned(model, found, path, {})
        seconds = time.process_time() - began
        before, after = (answers(name, own, held_out, device) for name in (model, str(path)))
    return Gain(
        pool=pool,
        seed=seed,
        expected=found.gain,
        before=summarise(before),
        after=summarise(after),
        gain=summarise(after - before),
        is_worth_it=found.is_worth_it,
        seconds=seconds,
    )


def answers(model: str, own: Classes, held_out: Classes, device: Device) -> NDArray[np.float64]:
    """Return which held-out photos a model classifies correctly, as 0 or 1."""
    classifier = FewShotClassifier(model, device=device).fit(own)
    truths = [name for name, files in held_out.items() for _ in files]
    labels = classifier.predict([file for files in held_out.values() for file in files])
    return (labels == np.array(truths)).astype(np.float64)


def main(
    pools: Pools,
    model: Annotated[str, typer.Option(help="What to start from: a name, model file or run.")] = DEFAULT_MODEL,
    classes: Annotated[int, typer.Option(min=2, help="Classes of a draw.")] = 10,
    photos: Annotated[int, typer.Option(min=4, help="Photos of a class for fine-tuning.")] = 15,
    tests: Annotated[int, typer.Option(min=1, help="Test photos of a class.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the first draw; each has the next.")] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Fine-tune a model on some photos of each class, and measure the gain in accuracy on others."""
    with user_errors():
        resolve(model)
        gains = []
        with progress_bar("draws") as show:
            for number, pool in enumerate(pools):
                gains.append(measure_gain(pool, model, seed + number, classes, photos, tests, device))
                note("  ".join(gains[-1].row))
                show(len(gains), len(pools))
    mean = sum(gain.gain.mean for gain in gains) / len(gains)
    if as_json:
        print_json({"model": model, "draws": [asdict(gain) for gain in gains], "gain": mean})
        return
    print_table(("pool", "seed", "test", "gain", "expected", "worth it", "seconds"), (gain.row for gain in gains))
    stdout().print(f"{model}, {classes} classes of {photos} photos; mean gain {mean:+.1f} points")


if __name__ == "__main__":
    run(main)
