"""Menu of the settings remembered between starts: F2."""

from frn.models.zoo import DEFAULT_MODEL, named_extractors
from frn_tui.dialogs.dialogs import AskText, PressKey
from frn_tui.screens.workspace import Workspace
from frn_tui.settings.keys import BOUND, change_key, keys_path, shown
from frn_tui.terminal.modes import MODES
from frn_tui.terminal.paths import absolute, shortened
from frn_tui.terminal.text import display_name


async def change_settings(workspace: Workspace) -> None:
    """Show the settings until the menu is closed; changes apply at once, or at the next start if it says so."""
    context = workspace.context
    while True:
        changes = {
            f"theme: {workspace.app.theme}": _theme,
            f"images: {f'auto ({context.mode})' if workspace.images == 'auto' else context.mode}": _images,
            f"default model: {display_name(context.settings.model or DEFAULT_MODEL, 40)}": _model,
            f"keys: {len(workspace.own_keys) or 'none'} changed": _keys,
        }
        chosen = await context.chosen("Settings", list(changes))
        if chosen is None:
            return
        await list(changes.values())[chosen](workspace)


async def _theme(workspace: Workspace) -> None:
    names = sorted(name for name in workspace.app.available_themes if not (workspace.app.no_color and "ansi" in name))
    if (chosen := await workspace.context.chosen("Theme", names)) is not None:
        workspace.app.theme = names[chosen]


async def _images(workspace: Workspace) -> None:
    options = ["auto: depends on the terminal", *MODES]
    if (chosen := await workspace.context.chosen("Images", options)) is not None:
        workspace.set_images(("auto", *MODES)[chosen])


async def _model(workspace: Workspace) -> None:
    names = list(named_extractors())
    chosen = await workspace.context.chosen("Default model", [*names, "a features.onnx…"])
    if chosen is not None and chosen < len(names):
        workspace.context.change(model="" if names[chosen] == DEFAULT_MODEL else names[chosen])
    elif chosen is not None and (path := await workspace.context.answer(AskText("Path of a features.onnx"))):
        workspace.context.change(model=absolute(path))


async def _keys(workspace: Workspace) -> None:
    """Choose a row of the table, then press another key for it."""
    workspace.read_keys()  # on startup, errors in the file are shown only for seconds
    names, own = list(BOUND), workspace.own_keys
    rows = [f"{shown(own.get(name, BOUND[name].keys)):<12} {name}: {BOUND[name].meaning}" for name in names]
    where = display_name(shortened(str(keys_path())), 60)
    chosen = await workspace.context.chosen(f"Keys (yours are stored in {where})", rows)
    if chosen is None:
        return
    key = await workspace.context.answer(PressKey(BOUND[names[chosen]].meaning))
    if key is not None:
        refused = change_key(names[chosen], key)
        workspace.read_keys()
        said = "default key restored" if not key else f"is now {shown(key)}"
        workspace.context.say(refused or f"{names[chosen]}: {said}", severity="warning" if refused else "information")
        workspace.refresh_all()
