"""Menu of the settings remembered between starts: F2."""

from dataclasses import replace
from typing import Protocol

from rich.table import Table
from rich.text import Text

from frn.models.zoo import DEFAULT_MODEL, named_extractors
from frn_tui.dialogs.dialogs import AskText, Choose, Page
from frn_tui.screens.workspace import Workspace, bindings
from frn_tui.settings.keys import shown
from frn_tui.settings.settings import IMAGES, Settings, settings_path
from frn_tui.terminal.paths import absolute, shortened
from frn_tui.terminal.text import display_name, percent, share_of


class Preferences(Protocol):
    """Settings that the menu changes."""

    settings: Settings
    troubles: list[str]
    """Errors in the settings file."""

    def set_images(self, images: str) -> None:
        """Draw images in this mode from now on."""


async def change_settings(workspace: Workspace, preferences: Preferences) -> None:
    """Show the settings until the menu is closed; changes apply at once, or at the next start if it says so."""
    changes = (_theme, _images, _model, _tta, _threshold, _keys)
    while True:
        settings = preferences.settings
        unknown = "from the examples" if settings.threshold is None else f"{percent(settings.threshold, 1)} explained"
        options = [
            f"theme: {workspace.app.theme}",
            f"pictures: {_pictures(workspace, preferences)}",
            f"model at the start: {display_name(settings.model or DEFAULT_MODEL, 40)}",
            f"mirror images at the start: {'looked at, too' if settings.tta == 'hflip' else 'no'}",
            f"threshold of new classes: {unknown}",
            f"keys: {len(workspace.own_keys) or 'none'} changed",
        ]
        chosen = await workspace.app.push_screen_wait(Choose("Settings", options))
        if chosen is None:
            return
        await changes[chosen](workspace, preferences)


async def _theme(workspace: Workspace, preferences: Preferences) -> None:
    names = sorted(name for name in workspace.app.available_themes if not (workspace.app.no_color and "ansi" in name))
    chosen = await workspace.app.push_screen_wait(Choose("Theme", names))
    if chosen is not None:
        workspace.app.theme = names[chosen]


def _pictures(workspace: Workspace, preferences: Preferences) -> str:
    mode = workspace.context.mode
    return f"auto ({mode})" if preferences.settings.images == "auto" and not workspace.mode_was_chosen else mode


async def _images(workspace: Workspace, preferences: Preferences) -> None:
    chosen = await workspace.app.push_screen_wait(Choose("Pictures", ["auto: by the terminal", *IMAGES[1:]]))
    if chosen is not None:
        preferences.set_images(IMAGES[chosen])


async def _model(workspace: Workspace, preferences: Preferences) -> None:
    names = list(named_extractors())
    chosen = await workspace.app.push_screen_wait(Choose("Model at the start", [*names, "a features.onnx…"]))
    if chosen is None:
        return
    name = (
        names[chosen]
        if chosen < len(names)
        else await workspace.app.push_screen_wait(AskText("Path of a features.onnx"))
    )
    if name:
        preferences.settings = replace(
            preferences.settings, model="" if name == DEFAULT_MODEL else name if name in names else absolute(name)
        )


async def _tta(workspace: Workspace, preferences: Preferences) -> None:
    options = ["no: each photo is looked at once", "yes: better answers, in twice the time"]
    chosen = await workspace.app.push_screen_wait(Choose("Look at mirror images, too", options))
    if chosen is not None:
        preferences.settings = replace(preferences.settings, tta=("none", "hflip")[chosen])


async def _threshold(workspace: Workspace, preferences: Preferences) -> None:
    hint = "share that a class must explain, 0 to 100 %; empty: from the examples   enter: done   esc: back"
    now = preferences.settings.threshold
    text = await workspace.app.push_screen_wait(
        AskText("Threshold of new classes", "" if now is None else f"{100 * now:g}", hint)
    )
    if text is None:
        return
    value = share_of(text)
    if text.strip() and value is None:
        workspace.context.say("a threshold is a number from 0 to 100", severity="warning")
        return
    preferences.settings = replace(preferences.settings, threshold=value)
    workspace.controller.first_threshold = value


async def _keys(workspace: Workspace, preferences: Preferences) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for binding in bindings():
        name = str(binding.id)
        table.add_row(Text(name), Text(shown(workspace.own_keys.get(name, binding.key))))
    where = display_name(shortened(str(settings_path())))
    intro = Text(f'Set in {where}, read at the start:\n"keys": {{"ask": "q", "next-answer": "ctrl+n,f6"}}\n')
    page = Table.grid()
    page.add_row(intro)
    for trouble in preferences.troubles:  # at the start they are shown only for seconds
        page.add_row(Text(f"{display_name(trouble)}\n", style="bold"))
    page.add_row(table)
    await workspace.app.push_screen_wait(Page("Keys by name", page))
