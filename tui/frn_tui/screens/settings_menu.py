"""Menu of the settings remembered between starts: F2."""

from dataclasses import replace
from typing import Protocol

from frn.models.zoo import DEFAULT_MODEL, named_extractors
from frn_tui.dialogs.dialogs import AskText, Choose, PressKey
from frn_tui.panes.verdicts import THRESHOLD_HINT, typed_threshold
from frn_tui.screens.workspace import Workspace
from frn_tui.settings.keys import BOUND, change_key, keys_path, shown
from frn_tui.settings.settings import IMAGES, Settings
from frn_tui.terminal.paths import absolute, shortened
from frn_tui.terminal.text import display_name, percent


class Preferences(Protocol):
    """Settings that the menu changes."""

    settings: Settings
    troubles: list[str]
    """Errors in the settings file."""

    def read_keys(self) -> list[str]:
        """Load the user's own keys from their file again; return the errors in it."""

    def set_images(self, images: str) -> None:
        """Draw images in this mode from now on."""


async def change_settings(workspace: Workspace, preferences: Preferences) -> None:
    """Show the settings until the menu is closed; changes apply at once, or at the next start if it says so."""
    changes = (_theme, _images, _model, _tta, _threshold, _keys)
    while True:
        settings = preferences.settings
        unknown = "calibrated" if settings.threshold is None else f"{percent(settings.threshold, 1)} explained"
        options = [
            f"theme: {workspace.app.theme}",
            f"images: {_pictures(workspace, preferences)}",
            f"default model: {display_name(settings.model or DEFAULT_MODEL, 40)}",
            f"mirror images by default: {'also classified' if settings.tta == 'hflip' else 'no'}",
            f"threshold of new projects: {unknown}",
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
    chosen = await workspace.app.push_screen_wait(Choose("Images", ["auto: depends on the terminal", *IMAGES[1:]]))
    if chosen is not None:
        preferences.set_images(IMAGES[chosen])


async def _model(workspace: Workspace, preferences: Preferences) -> None:
    names = list(named_extractors())
    chosen = await workspace.app.push_screen_wait(Choose("Default model", [*names, "a features.onnx…"]))
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
    options = ["no: classify each photo once", "yes: more accurate, twice the time"]
    chosen = await workspace.app.push_screen_wait(Choose("Also classify mirror images", options))
    if chosen is not None:
        preferences.settings = replace(preferences.settings, tta=("none", "hflip")[chosen])


async def _threshold(workspace: Workspace, preferences: Preferences) -> None:
    now = preferences.settings.threshold
    dialog = AskText("Threshold of new projects", "" if now is None else f"{100 * now:g}", THRESHOLD_HINT)
    text = await workspace.app.push_screen_wait(dialog)
    if text is not None and (value := typed_threshold(workspace.context, text)) is not False:
        preferences.settings = replace(preferences.settings, threshold=value)
        workspace.controller.first_threshold = value


async def _keys(workspace: Workspace, preferences: Preferences) -> None:
    """Choose a row of the table, then press another key for it."""
    for trouble in preferences.troubles:  # on startup they are shown only for seconds
        workspace.context.say(trouble, severity="warning")
    names, own = list(BOUND), workspace.own_keys
    rows = [f"{shown(own.get(name, BOUND[name].keys)):<12} {name}: {BOUND[name].meaning}" for name in names]
    where = display_name(shortened(str(keys_path())), 60)
    chosen = await workspace.app.push_screen_wait(Choose(f"Keys (yours are stored in {where})", rows))
    if chosen is None:
        return
    key = await workspace.app.push_screen_wait(PressKey(BOUND[names[chosen]].meaning))
    if key is not None:
        refused = change_key(names[chosen], key)
        preferences.troubles = preferences.read_keys()
        said = "default key restored" if not key else f"is now {shown(key)}"
        workspace.context.say(refused or f"{names[chosen]}: {said}", severity="warning" if refused else "information")
        workspace.refresh_all()
