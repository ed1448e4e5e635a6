"""What is remembered from one start to the next, to be changed: F2."""

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from frn.models.zoo import DEFAULT_MODEL, named_extractors
from frn_tui.dialogs.dialogs import AskText, Choose, Page
from frn_tui.screens.workspace import bindings
from frn_tui.settings.keys import shown
from frn_tui.settings.settings import IMAGES, settings_path
from frn_tui.terminal.paths import absolute, shortened
from frn_tui.terminal.text import display_name, percent, share_of

if TYPE_CHECKING:
    from frn_tui.app import FrnApp


async def change_settings(app: "FrnApp") -> None:
    """Show the settings until they are left; each change counts at once, or where it says so at the next start."""
    changes = (_theme, _images, _model, _test_time, _threshold, _keys)
    while True:
        settings = app.settings
        unknown = "from the examples" if settings.threshold is None else f"{percent(settings.threshold, 1)} explained"
        options = [
            f"theme: {app.theme}",
            f"pictures: {_pictures(app)}",
            f"model at the start: {display_name(settings.model or DEFAULT_MODEL, 40)}",
            f"mirror images at the start: {'looked at, too' if settings.test_time == 'mirror' else 'no'}",
            f"threshold of new classes: {unknown}",
            f"keys: {len(app.workspace.own_keys) or 'none'} changed",
        ]
        chosen = await app.push_screen_wait(Choose("Settings", options))
        if chosen is None:
            return
        await changes[chosen](app)


async def _theme(app: "FrnApp") -> None:
    names = sorted(name for name in app.available_themes if not (app.no_color and "ansi" in name))
    chosen = await app.push_screen_wait(Choose("Theme", names))
    if chosen is not None:
        app.theme = names[chosen]


def _pictures(app: "FrnApp") -> str:
    mode = app.context.mode
    return f"auto ({mode})" if app.settings.images == "auto" and not app.workspace.mode_was_chosen else mode


async def _images(app: "FrnApp") -> None:
    chosen = await app.push_screen_wait(Choose("Pictures", ["auto: by the terminal", *IMAGES[1:]]))
    if chosen is not None:
        app.set_images(IMAGES[chosen])


async def _model(app: "FrnApp") -> None:
    names = list(named_extractors())
    chosen = await app.push_screen_wait(Choose("Model at the start", [*names, "a features.onnx…"]))
    if chosen is None:
        return
    name = names[chosen] if chosen < len(names) else await app.push_screen_wait(AskText("Path of a features.onnx"))
    if name:
        app.settings = replace(
            app.settings, model="" if name == DEFAULT_MODEL else name if name in names else absolute(name)
        )


async def _test_time(app: "FrnApp") -> None:
    options = ["no: each photo is looked at once", "yes: better answers, in twice the time"]
    chosen = await app.push_screen_wait(Choose("Look at mirror images, too", options))
    if chosen is not None:
        app.settings = replace(app.settings, test_time=("fast", "mirror")[chosen])


async def _threshold(app: "FrnApp") -> None:
    hint = "share that a class must explain, 0 to 100 %; empty: from the examples   enter: done   esc: back"
    now = app.settings.threshold
    text = await app.push_screen_wait(
        AskText("Threshold of new classes", "" if now is None else f"{100 * now:g}", hint)
    )
    if text is None:
        return
    value = share_of(text)
    if text.strip() and value is None:
        app.context.say("a threshold is a number from 0 to 100", severity="warning")
        return
    app.settings = replace(app.settings, threshold=value)
    app.controller.first_threshold = value


async def _keys(app: "FrnApp") -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for binding in bindings():
        name = str(binding.id)
        table.add_row(Text(name), Text(shown(app.workspace.own_keys.get(name, binding.key))))
    where = display_name(shortened(str(settings_path())))
    intro = Text(f'Set in {where}, read at the start:\n"keys": {{"ask": "q", "next-answer": "ctrl+n,f6"}}\n')
    page = Table.grid()
    page.add_row(intro)
    for trouble in app.troubles:  # said at the start too, for seconds only
        page.add_row(Text(f"{display_name(trouble)}\n", style="bold"))
    page.add_row(table)
    await app.push_screen_wait(Page("Keys by name", page))
