"""The help page: every key, by what one wants to do."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from frn_tui.keys import shown

KEYS = {
    "Build classes": [
        ("a", "add photos, or a folder of class folders; or paste and drop paths"),
        ("n  r  d", "new class, rename, delete"),
        ("space v ctrl+a", "select photos: one, a range, all"),
        ("1-9  m", "send them to class N, or to one by name"),
        ("f", "worst fitting photos first: leave-one-out"),
        ("k", "hide and test: how well a few examples do"),
    ],
    "Ask": [
        ("p", "about a photo, several, or a folder; enter on a photo asks about it"),
        ("w", "watch a folder for new photos"),
        (",  .", "answer before, next answer"),
        ("l", "all answers in a table; write CSV or JSON"),
        ("h s t", "error map on or off, smooth, with numbers"),
        ("[  ]", "the map of another class"),
    ],
    "Correct": [
        ("y", "right: keep it as an example"),
        ("1-9  m", "it is class N: make it an example of that"),
        ("x", "none of them: the threshold rises above it"),
        ("-  +  0", "threshold down, up, from the examples"),
        ("u  ctrl+r", "undo, redo: everything"),
    ],
    "Keep": [
        ("ctrl+s ctrl+o", "save, open a project"),
        ("e", "export the classifier as ONNX, or the classes as .npz"),
        ("c", "copy the verdict"),
        ("b", "files that could not be used, and why"),
    ],
    "Look": [
        ("tab shift+tab", "next pane, pane before"),
        ("g  i  z", "grid or list, picture mode, large picture"),
        ("o", "the photo in another program, outside the terminal"),
        ("/", "filter photos, find a class"),
        ("esc", "cancel what is running"),
        ("f2", "settings: theme, pictures, model, threshold, keys"),
        ("ctrl+p ctrl+q", "all commands, quit"),
    ],
}


SIGNS = [
    ("●●●  ●●○  ●○○", "the others of a class name 90 %, 70 %, fewer of its photos rightly"),
    ("!  ≈", "a photo that does not fit its class; one that looks the same as another"),
]


def help_page(own: Mapping[str, str]) -> Table:
    """The keys, and first those that the user has set, by the bindings' ids."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    changed = {"Your own keys": [(shown(key), name) for name, key in own.items()]} if own else {}
    for title, keys in {**changed, **KEYS}.items():
        table.add_row(Text(title, style="underline"), "")
        for key, meaning in keys:
            table.add_row(Text(f"  {key}"), Text(meaning))
        table.add_row("", "")
    table.add_row(Text("Signs", style="underline"), "")
    for sign, meaning in SIGNS:
        table.add_row(Text(f"  {sign}"), Text(meaning))
    table.add_row("", "")
    table.add_row("", Text("Other keys: F2, keys.", style="dim"))
    return table
