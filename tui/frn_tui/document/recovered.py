"""Description of the unsaved work of an app that has exited."""

from datetime import datetime

from frn_tui.client.file_requests import Recovered
from frn_tui.terminal.paths import shortened
from frn_tui.terminal.text import count_of, display_name


def origin(found: Recovered) -> str:
    """Describe the origin of the work, and when it was saved."""
    place = found.project or found.place
    named = display_name(shortened(place), 40) if place else "an unnamed project"
    when = datetime.fromtimestamp(found.time).astimezone()
    day = "" if when.date() == datetime.now().astimezone().date() else f"{when:%Y-%m-%d} "
    return f"{named}, {day}{when:%H:%M}"


def contents(found: Recovered) -> str:
    """Describe what would be recovered."""
    classes = found.state.classes
    names = ", ".join(display_name(entry.name, 16) for entry in classes[:3])
    rest = ", …" if len(classes) > 3 else ""
    photos = count_of(sum(len(entry.supports) for entry in classes), "photo")
    begun = sum(map(len, found.adding.values()))
    more = f", {begun:,} still being added" if begun else ""
    said = count_of(len(classes), "class")
    return f"{said} ({names}{rest}), {photos}{more}" if classes else f"{said}{more}"
