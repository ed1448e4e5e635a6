"""Model soups: the mean of the weights of runs that began as the same network (Wortsman et al., 2022)."""

from collections.abc import Sequence

import torch

from frn.errors import FrnError
from frn.models.model import Model


@torch.no_grad()
def mean_model(models: Sequence[Model]) -> Model:
    """A model whose every weight and running statistic is the mean of those of `models`; it costs no time to use.

    Means are taken in float64; what is counted, not measured, is the first one's. Its record is what theirs agree on,
    the first one's preset (of which `frn finetune` takes its augmentation), and theirs as `mean_of`; its accuracy is
    for who measures it. FrnError if there are fewer than two models, or they are not of one kind.
    """
    if len(models) < 2:
        raise FrnError(f"a mean needs two models at least, not {len(models)}")
    first, *others = models
    for other in others:
        if other.config != first.config:
            raise FrnError(
                f"a mean is of models of one kind: {other.config.method} on {other.config.backbone} at "
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
