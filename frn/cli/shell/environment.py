"""Defaults for options by environment variables: FRN_CLASSIFY_TOP=5 for `frn classify --top`."""

from collections.abc import Mapping
from typing import Any

OUTPUTS = ("--out", "--web", "--report", "--csv", "--runs")
"""Options that name what is written, where they take a value."""
NEVER = (*OUTPUTS, "--replace", "--download", "--version")
"""Options that only a typed command sets: no variable may choose what is written, or use the network."""


def name_variables(commands: Mapping[str, Any], prefix: str = "FRN") -> None:
    """Let each option of the commands default to the variable of its name."""
    for name, command in commands.items():
        own = f"{prefix}_{name}".upper().replace("-", "_")
        name_variables(getattr(command, "commands", {}), own)
        for parameter in command.params:
            word = next((word for word in parameter.opts if word.startswith("--")), "")
            is_format = word == "--csv" and parameter.is_flag
            if word and (is_format or word not in NEVER):
                parameter.envvar = own + word[1:].upper().replace("-", "_")
                parameter.show_envvar = False  # `frn help defaults` says how they are called
