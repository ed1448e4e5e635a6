"""Model soups: the mean weights of runs that started from the same network (Wortsman et al., 2022)."""

from collections.abc import Sequence

import torch

from frn.errors import FrnError
from frn.models.model import Model


@torch.no_grad()
def mean_model(models: Sequence[Model]) -> Model:
    """Return a model whose weights and running statistics are the means over `models`; it is as fast as one of them.

    Means are taken in float64; counters are taken from the first model. The record contains what all records agree on,
    the first model's preset (from which `frn finetune` takes its augmentation) and all records as `mean_of`; the
    accuracy is not measured. Raises FrnError if there are fewer than two models or they are not of one kind.
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
