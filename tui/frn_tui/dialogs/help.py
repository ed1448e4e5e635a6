"""Help page with every key, grouped by task. Braces contain binding ids and become their current keys."""

import re
from collections.abc import Iterable, Mapping

from rich.table import Table
from rich.text import Text
from textual.binding import Binding

from frn_tui.settings.keys import key_in_use

KEYS = {
    "Build classes": [
        ("{add}", "add photos, or a folder of class folders; or paste and drop paths"),
        ("{new}  {rename}  {delete}", "new class, rename (to another's name: merge them), delete"),
        ("space v ctrl+a", "select photos: one, a range, all"),
        ("{class-n}  {move}", "send them to class N, or to one by name: also beyond nine"),
        ("{sort-by-fit}", "worst fitting photos first: leave-one-out"),
        (
            "{misfits-of-all-classes}  {near-copies-of-all-classes}",
            "misfits, and near copies, of all classes",
        ),
        ("{hide-and-test}  {compare-models}", "hide and test a few examples; compare the models"),
        ("{order-of-classes}", "classes by quality, size, name, or number"),
    ],
    "Ask": [
        ("{ask}", "about a photo, several, or a folder; enter on a photo asks about it"),
        ("{watch}", "watch a folder for new photos"),
        ("{previous-answer}  {next-answer}", "answer before, next answer"),
        ("{review}", "all answers: label many, threshold, sort into folders, write"),
        ("{heat} {smooth} {numbers}", "photo, error map over it, error map; blocks; numbers"),
        ("{map-of-the-class-before}  {map-of-the-next-class}", "the map of another class"),
    ],
    "Correct": [
        ("{right}", "right: keep it as an example"),
        ("{class-n}  {move}", "it is class N: make it an example of that"),
        ("{none-of-them}", "none of these: a verdict that is kept, and tells what unknown photos look like"),
        ("{threshold-down}  {threshold-up}  {threshold-by-number}", "threshold down, up, typed"),
        ("{calibrate}", "threshold from the examples"),
        ("{undo}  {redo}", "undo, redo: everything"),
    ],
    "Keep": [
        ("{save} {save-as} {open} {new-project}", "save, save as, open, begin anew"),
        ("{bundle}", "the project with its photos in one folder or zip, for another machine"),
        ("{relocate}", "find photos that were moved, by their content"),
        ("{export}", "export the classifier as ONNX, or the classes as .npz"),
        ("{copy}", "copy the verdict"),
        ("{problems}", "files that could not be used, and why"),
    ],
    "Look": [
        ("{next-pane} {previous-pane}", "next pane, pane before"),
        ("{zoom} {zoom-out}", "the photo large, closer (arrows move it), and back"),
        ("{grid-or-list}  {smaller-photos} {larger-photos}", "grid or list; smaller and larger photos"),
        ("{narrower-query} {wider-query}", "give the query, or the classes in focus, less or more of the width"),
        ("{picture-mode}", "how pictures are drawn"),
        ("{open-in-a-viewer}", "the photo in another program, outside the terminal"),
        ("{filter}", "filter photos, find a class"),
        ("{cancel}", "cancel what is running"),
        ("{settings}", "settings: theme, pictures, model, threshold, keys"),
        ("h j k l", "left, down, up, right in lists and among photos, too"),
        ("ctrl+p ctrl+q", "all commands, quit"),
    ],
}
SIGNS = [
    ("●●●  ●●○  ●○○", "the others of a class name 90 %, 70 %, fewer of its photos rightly"),
    ("!  ≈", "a photo that does not fit its class; one that looks the same as another"),
]


def meanings() -> dict[str, str]:
    """Return the help of each binding by its id; bindings that share a line get the whole line."""
    told = [line for lines in KEYS.values() for line in lines]
    return {"help": "all keys", **{name: meaning for cell, meaning in told for name in re.findall(r"{(.+?)}", cell)}}


def help_page(bindings: Iterable[Binding], own: Mapping[str, str]) -> Table:
    """Return a table of the current keys of `bindings`; `own` has the user's keys by id."""
    keys = {str(binding.id): key_in_use(binding, own) for binding in bindings}
    numbers = [keys[f"class-{number}"] for number in range(1, 10)]
    keys["class-n"] = "1-9" if numbers == list("123456789") else "".join(numbers)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    told = {title: [(cell.format_map(keys), meaning) for cell, meaning in lines] for title, lines in KEYS.items()}
    for title, lines in {**told, "Signs": SIGNS}.items():
        table.add_row(Text(title, style="underline"), "")
        for cell, meaning in lines:
            table.add_row(Text(f"  {cell}"), Text(meaning))
        table.add_row("", "")
    table.add_row("", Text("Other keys: F2, keys.", style="dim"))
    return table
