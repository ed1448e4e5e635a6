"""Page with the files that could not be used."""

from collections.abc import Sequence

from rich.text import Text

from frn_tui.dialogs.dialogs import Page
from frn_tui.document.queries import Problem
from frn_tui.terminal.text import count_of, display_name

MAX_PROBLEMS = 500
"""Number of latest problems listed."""


def problems_page(problems: Sequence[Problem]) -> Page:
    """Return a page of each file with its reason."""
    lines = Text()
    for problem in problems[-MAX_PROBLEMS:]:
        lines.append(display_name(problem.path), style="bold")
        lines.append(f"\n  {display_name(problem.reason.removeprefix(f'{problem.path}: '))}\n")
    return Page(count_of(len(problems), "problem"), lines)
