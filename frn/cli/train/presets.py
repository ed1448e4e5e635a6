"""`frn presets`: named training configurations."""

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import print_json, print_table, stdout, user_errors

if TYPE_CHECKING:
    from frn.training.presets import Preset


@user_errors()
def presets(
    name: Annotated[str | None, typer.Argument(help="Show all settings of this preset.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the training presets of `frn train` and the accuracies that the paper reports."""
    from frn.training.presets import PRESETS, find_preset

    chosen = PRESETS if name is None else {name: find_preset(name)}
    values = {name: asdict(preset) for name, preset in chosen.items()}
    if as_json:
        print_json(values if name is None else values[name])
    elif name is None:
        _list(chosen)
    else:
        stdout().print_json(data=values[name], indent=1, highlight=False)


def _list(chosen: "dict[str, Preset]") -> None:
    rows: list[tuple[str, ...]] = []
    for _, family in groupby(chosen.items(), key=lambda entry: entry[1].data.prepare):
        rows += [()] if rows else []
        for name, preset in family:
            figures = preset.published.accuracy if preset.published else {}
            shown = [f"{figures[shot]:.2f}" if shot in figures else "" for shot in (1, 5)]
            step, epochs = describe_step(preset), str(preset.schedule.epochs)
            rows.append((name, f"{preset.method} {preset.backbone}", step, epochs, *shown, preset.about))
    print_table(("preset", "model", "step", "epochs", "1-shot", "5-shot", "about"), rows)
    stdout().print("\n1-shot, 5-shot: the paper's accuracies in percent. `frn presets NAME` shows a preset in full.")


def describe_step(preset: "Preset") -> str:
    """Describe the data of one optimiser step."""
    if not preset.trains_on_episodes:
        return f"batch {preset.pretraining.batch}"
    return f"{preset.episode} {preset.episode.queries}-query"
