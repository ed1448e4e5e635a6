"""A table as a Markdown page: published and measured figures, how they were made, and the commands."""

from importlib.resources import files

from frn.reproduce.rows import Row, RunSpec, Table
from frn.reproduce.table_report import Report


def figure(mean: float | None, ci95: float | None) -> str:
    """Return a figure and its interval, if they exist."""
    if mean is None:
        return ""
    return f"{mean:.2f}" if ci95 is None else f"{mean:.2f} ± {ci95:.2f}"


def minutes(row: Row, found: Report) -> str:
    """Return the training time of a row's runs and of the runs they start from: one time, or one per shot."""

    def told(run: RunSpec) -> str:
        before = told(run.init) if run.init and run.init.name in found.runs else ""
        return f"{found.runs[run.name].seconds / 60:.0f} min" + (f" after {before}" if before else "")

    behind = {m.run.name: m.run for m in row.measurements if m.name in found.measurements}
    return " + ".join(told(run) for name, run in behind.items() if name in found.runs)


def markdown(found: Report, table: Table) -> str:
    """Render a table as a Markdown page with `table.md.jinja`."""
    from jinja2 import Template  # imported here because only pages need it

    known = {row.name: row for row in table.rows}
    heads: list[str] = []
    columns: list[list[str]] = []
    for column in dict.fromkeys(str(column) for row in table.rows for column in row.cells):
        figures = [line.figures.get(column) for line in found.rows]
        if not any(figures):
            continue
        if any(f and f.published is not None for f in figures):
            heads.append(f"{column}-shot published")
            columns.append([figure(f.published, f.published_ci95) if f else "" for f in figures])
        heads.append(f"{column}-shot here")
        columns.append([figure(f.accuracy, f.ci95) if f else "" for f in figures])
    absent: dict[str, list[str]] = {}
    for line in found.rows:
        if line.missing:
            absent.setdefault(line.missing, []).append(line.label)
    measured, runs = found.measurements.values(), found.runs.values()
    text = (files("frn.reproduce") / "table.md.jinja").read_text(encoding="utf-8")
    return Template(text, trim_blocks=True, keep_trailing_newline=True).render(
        found=found,
        heads=heads,
        rows=[
            (line.label, cells, minutes(known[line.row], found))
            for line, cells in zip(found.rows, zip(*columns, strict=True), strict=True)
        ],
        protocols={f"{m.way}-way, {m.queries} queries, {m.episodes:,} episodes, seed {m.seed}" for m in measured},
        machines={f"{run.machine or 'unknown machine'}, {run.precision}" for run in runs},
        absent=absent,
        called=[entry.command for part in (runs, measured) for entry in part],
    )
