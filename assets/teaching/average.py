"""Average the weights of runs that started from the same network ("model soups", Wortsman et al., 2022).

    python assets/teaching/average.py runs/10 runs/11 --out mean.safetensors

The average of runs with different seeds and the same `--init` can be more accurate than any single run. Compare the
models with `frn eval --split val`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from frn.cli.shell import options
from frn.cli.shell.console import user_errors
from frn.errors import FrnError
from frn.models.model import Model, load_model, save_model
from frn.system.files import require_writable


@torch.no_grad()
def mean_model(models: Sequence[Model]) -> Model:
    """Return a model whose weights and running statistics are the means over `models`.

    The means are computed in float64, and counters come from the first model. The record contains what all records
    agree on, the first model's preset (from which `frn finetune` takes its augmentation) and all records as `mean_of`;
    the accuracy is not measured. Raises FrnError if there are fewer than two models or they are of different kinds.
    """
    if len(models) < 2:
        raise FrnError(f"an average needs at least two models, not {len(models)}")
    first, *others = models
    for other in others:
        if other.config != first.config:
            raise FrnError(
                f"an average needs models of the same type: {other.config.method} on {other.config.backbone} at "
                f"{other.config.transform.size} pixels, {first.config.method} on {first.config.backbone} at "
                f"{first.config.transform.size}"
            )
    mean = Model(first.config)
    states = [model.state_dict() for model in models]
    mean.load_state_dict(
        {
            name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
            if value.is_floating_point()
            else value
            for name, value in states[0].items()
        }
    )
    kept = {
        key: value
        for key, value in first.record.items()
        if key == "preset" or (key != "validation" and all(other.record.get(key) == value for other in others))
    }
    mean.record = {**kept, "mean_of": [model.record for model in models]}
    return mean.eval()


def main(
    models: Annotated[list[Path], typer.Argument(help="Runs or model files that share one starting point.")],
    out: Annotated[Path, typer.Option(help="Model file to write: something.safetensors.")],
    replace: options.Replace = False,
) -> None:
    """Average the weights of several runs."""
    with user_errors():
        if out.suffix != ".safetensors":
            raise FrnError(f"{out}: a model file must end in .safetensors")
        require_writable(out, replace=replace)
        save_model(mean_model([load_model(model) for model in models]), out)
        print(f"{out}: the mean of {len(models)} models")


if __name__ == "__main__":
    typer.run(main)
