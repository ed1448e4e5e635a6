"""`frn presets`: the training runs that have a name."""

from dataclasses import asdict
from typing import Annotated

import typer

from frn.cli.console import print_json, stdout


def presets(as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False) -> None:
    """List the training presets that `frn train` knows."""
    from rich.table import Table
    from rich.text import Text

    from frn.training.presets import PRESETS

    values = {name: build() for name, build in PRESETS.items()}
    if as_json:
        print_json({name: asdict(preset) for name, preset in values.items()})
        return
    table = Table("preset", "model", "step", "epochs", "about", box=None, pad_edge=False)
    for name, preset in values.items():
        table.add_row(
            Text(name, style="bold", no_wrap=True),
            f"{preset.method} {preset.backbone}",
            f"{preset.episode} {preset.episode.queries}-query"
            if preset.stage == "episodes"
            else f"batch {preset.batch}",
            str(preset.schedule.epochs),
            preset.about,
        )
    stdout().print(table)
