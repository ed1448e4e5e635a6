"""Environment variables that set option defaults, such as FRN_CLASSIFY_TOP=5 for `frn classify --top`."""

from collections.abc import Mapping
from typing import Any

OUTPUTS = ("--out", "--web", "--report", "--csv", "--runs")
"""Options that, if they take a value, name an output file or folder."""
NEVER = (*OUTPUTS, "--replace", "--download", "--version")
"""Options without a variable: a variable must not choose output files or use the network."""


def name_variables(commands: Mapping[str, Any], prefix: str = "FRN") -> None:
    """Let an environment variable set each option's default."""
    for name, command in commands.items():
        own = f"{prefix}_{name}".upper().replace("-", "_")
        name_variables(getattr(command, "commands", {}), own)
        for parameter in command.params:
            word = next((word for word in parameter.opts if word.startswith("--")), "")
            is_format = word == "--csv" and parameter.is_flag
            if word and (is_format or word not in NEVER):
                parameter.envvar = own + word[1:].upper().replace("-", "_")
                parameter.show_envvar = False  # `frn help defaults` explains the names
