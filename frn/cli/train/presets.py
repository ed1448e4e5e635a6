"""`frn presets`: named training configurations."""

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import print_json, print_table, stdout, user_errors

if TYPE_CHECKING:
    from frn.training.presets import Preset, Published


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
        _show(chosen[name])


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


def _show(preset: "Preset") -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    rows = asdict(preset) | {"published": preset.published and describe_published(preset.published)}
    for key, value in rows.items():
        if isinstance(value, dict):
            table.add_row(key, ", ".join(f"{part} {content}" for part, content in value.items() if content is not None))
        elif value is not None:
            table.add_row(key, str(value))
    stdout().print(table)


def describe_step(preset: "Preset") -> str:
    """Describe the data of one optimiser step."""
    if not preset.trains_on_episodes:
        return f"batch {preset.pretraining.batch}"
    return f"{preset.episode} {preset.episode.queries}-query"


def describe_published(published: "Published") -> str:
    """Describe the published results as one line of text."""
    figures = [
        f"{shot}-shot {accuracy:.2f}" + (f" ± {published.ci95[shot]:.2f}" if shot in published.ci95 else "")
        for shot, accuracy in published.accuracy.items()
    ]
    return f"{', '.join(figures)} (Table {published.table})"
