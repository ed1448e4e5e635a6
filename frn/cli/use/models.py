"""`frn models`: the models that have names, those that ship and those that were added."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frn.cli.shell.console import note, print_table, printable, status_line, stdout, user_errors
from frn.cli.shell.output import AsJson, Format, chosen_format, printed

if TYPE_CHECKING:
    from frn.models.zoo import ModelFiles

app = typer.Typer(
    invoke_without_command=True,
    help="List the models that have names, which every command and the app take; add networks of others.",
)


@app.callback()
def models(context: typer.Context, form: Format = None, as_json: AsJson = False) -> None:
    """List the models that have names, which every command and the app take; add networks of others."""
    if context.invoked_subcommand is not None:
        return
    from frn.errors import FrnError
    from frn.models.zoo import closed_models, named_models, remove_unfinished_models

    found = {}
    with user_errors():
        wants = chosen_format(form, as_json)
        remove_unfinished_models()
        for folder in closed_models():
            note(f"warning: {folder}: cannot be read by this account. Change its mode to use it.")
        for name, files in named_models().items():
            try:
                found[name] = _facts(files)
            except FrnError as error:  # one that is damaged hides no other
                note(f"warning: {error}")
    if not printed(wants, found):
        _show(found)


@app.command()
def add(
    network: Annotated[str, typer.Argument(help="A name from `frn models known`, torchvision:NAME or timm:NAME.")],
    name: Annotated[
        str | None, typer.Option(help="What to call it here.", show_default="its name, up to the first dot")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Its weights, if they are here already.", show_default="fetched")
    ] = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a network that others have trained, check it and keep it: from then on its name works everywhere.

    FRN needs no training on it. The weights' licence is their makers'.
    """
    with user_errors():
        wants = chosen_format(form, as_json)
        from frn_export.added import add_model

        with status_line("looking for the weights") as say:

            def progress(done: int) -> None:
                say(f"fetching the weights: {done / 1e6:.1f} MB")

            added, files = add_model(network, name=name, weights=weights, progress=progress)
        facts = _facts(files)
    if printed(wants, {added: facts}):
        return
    _show({added: facts})
    stdout().print(f"frn-tui --model {added}   or   frn classify FOLDER PHOTO --model {added}")


@app.command()
def known(form: Format = None, as_json: AsJson = False) -> None:
    """List the networks that `frn models add` knows by a short name."""
    from frn.models.catalogue import CATALOGUE

    with user_errors():
        wants = chosen_format(form, as_json)
    facts = {name: {"backbone": n.backbone, "about": n.about, "licence": n.licence} for name, n in CATALOGUE.items()}
    if printed(wants, facts):
        return
    from rich.text import Text

    rows = [(Text(name, style="bold"), n.backbone, n.about, n.licence) for name, n in CATALOGUE.items()]
    print_table(("name", "network", "what it is", "licence"), rows)


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Of an added model.")]) -> None:
    """Delete a model that was added."""
    with user_errors():
        from frn.models.zoo import remove_model

        remove_model(name)
    stdout().print(f"removed {name}")


def _facts(files: "ModelFiles") -> dict[str, Any]:
    from frn.errors import FrnError
    from frn.models.header import read_header
    from frn.models.zoo import NOTES
    from frn.system.files import read_json

    config, record = read_header(files.weights)
    facts = {
        "path": str(files.weights),
        "backbone": config.backbone,
        "method": config.method,
        "size": config.transform.size,
        "bytes": files.weights.stat().st_size,
        **record,
    }
    try:
        notes = {} if files.shipped else read_json(files.weights.parent / NOTES)
    except FrnError:
        notes = {}
    return {**facts, **{key: value for key, value in notes.items() if key not in facts}}


def _show(found: dict[str, dict[str, Any]]) -> None:
    from rich.text import Text

    rows = []
    for name, facts in found.items():
        validation = facts.get("validation")
        rows.append(
            (
                Text(name, style="bold"),
                facts["method"],
                facts["backbone"],
                f"{facts['size']} px",
                f"{facts['bytes'] / 1e6:.2f} MB",
                f"{facts['milliseconds']} ms" if "milliseconds" in facts else "",
                printable(str(facts.get("about") or facts.get("data", ""))),
                "{accuracy:.2f} ± {ci95:.2f} % ({shape})".format(**validation)
                if validation
                else printable(str(facts.get("licence", ""))),
            )
        )
    print_table(("model", "method", "backbone", "image", "size", "time", "trained on", "validation, or licence"), rows)
