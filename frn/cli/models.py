"""`frn models`: the models that ship with the program."""

from frn.cli.console import print_json, print_table, user_errors
from frn.cli.options import AsJson


def models(as_json: AsJson = False) -> None:
    """List the shipped models: their names stand for their files in every command."""
    from frn.model_file import read_header
    from frn.shipped import shipped_models

    with user_errors():
        found = {name: (path, *read_header(path)) for name, path in shipped_models().items()}
    if as_json:
        print_json(
            {
                name: {
                    "path": str(path),
                    "backbone": c.backbone,
                    "method": c.method,
                    "size": c.transform.size,
                    **record,
                }
                for name, (path, c, record) in found.items()
            }
        )
        return
    rows = []
    for name, (path, config, record) in found.items():
        validation = record.get("validation") or {}
        rows.append(
            (
                f"[bold]{name}[/bold]",
                config.method,
                config.backbone,
                f"{config.transform.size} px",
                f"{path.stat().st_size / 1e6:.2f} MB",
                str(record.get("data", "")),
                "{accuracy:.2f} ± {ci95:.2f} % ({shape})".format(**validation) if validation else "",
            )
        )
    print_table(("model", "method", "backbone", "image", "size", "trained on", "validation"), rows)
