"""A trained backbone under the head of another method, as SimpleShot takes a classically trained one."""

from dataclasses import replace

from frn.errors import FrnError
from frn.models.model import Model


def with_method(model: Model, method: str) -> Model:
    """The backbone of `model` under a new head at the values that it starts from, in evaluation mode.

    SimpleShot's centre is still to be set: the mean feature of the training images. FrnError if the new head has layers
    of its own, which only training can fill.
    """
    other = Model(replace(model.config, method=method))
    layers = [name for name, parameter in other.head.named_parameters() if parameter.dim()]
    if layers:
        raise FrnError(
            f"--method {method} has layers to be trained ({', '.join(layers)}): `frn train --method {method} --init "
            "MODEL` does that"
        )
    other.backbone.load_state_dict(model.backbone.state_dict())
    other.record = model.record
    return other.to(next(model.parameters()).device).eval()
