"""A table as a Markdown page: published figures beside measured ones, how they were made, and by which commands."""

from frn.reproduce.plan import measurements
from frn.reproduce.rows import Row, Run, Table
from frn.reproduce.table_report import Report


def figure(mean: float | None, ci95: float | None, digits: int = 2) -> str:
    """A figure with its interval, as far as there are any."""
    if mean is None:
        return ""
    return f"{mean:.{digits}f}" if ci95 is None else f"{mean:.{digits}f} ± {ci95:.{digits}f}"


def heading(column: str) -> str:
    """Return the heading of figures by shot, or by what images are regenerated from."""
    return f"{column}-shot" if column.isdigit() else column.replace("_", " ")


def minutes(row: Row, found: Report) -> str:
    """Time of training of the runs behind a row; of both, where each shot has its own, and of what they start from."""

    def told(run: Run) -> str:
        before = told(run.init) if run.init and run.init.name in found.runs else ""
        return f"{found.runs[run.name].seconds / 60:.0f} min" + (f" after {before}" if before else "")

    behind = {m.run.name: m.run for m in measurements(row) if m.name in found.measurements}
    return " + ".join(told(run) for name, run in behind.items() if name in found.runs)


def markdown(found: Report, table: Table) -> str:
    """A table as a Markdown page."""
    parts = [f"# {found.title}", f"{found.source.capitalize()}; frn {found.version}."]
    if found.note:
        parts.append(found.note)
    if found.rows:
        parts.append("\n".join(_rows(found, table)))
    if found.measurements:
        parts.append("\n".join(_how_measured(found, table.unit)))
    absent: dict[str, list[str]] = {}
    for line in found.rows:
        if line.missing:
            absent.setdefault(line.missing, []).append(line.label)
    if absent:
        reasons = [f"- {'; '.join(labels)}: {reason}" for reason, labels in absent.items()]
        parts.append("\n".join(["Not measured here:", "", *reasons]))
    if found.elsewhere:
        lines = [
            f"| {e.label} | {e.published} | `{e.command}`{f' ({e.here})' if e.here else ''} |" for e in found.elsewhere
        ]
        parts.append("\n".join(["| | published | measured by |", "|---|---|---|", *lines]))
    if found.quoted:
        lines = [f"| {q.label} | {q.network} | {q.one_shot} | {q.five_shot} |" for q in found.quoted]
        head = ["Of other papers, as this one quotes them:", "", "| | network | 1-shot | 5-shot |", "|---|---|---|---|"]
        parts.append("\n".join([*head, *lines]))
    called = [entry.command for part in (found.runs, found.measurements) for entry in part.values()]
    if called:
        parts.append("\n".join(["```sh", *called, "```"]))
    return "\n\n".join(parts) + "\n"


def _rows(found: Report, table: Table) -> list[str]:
    known = {row.name: row for row in table.rows}
    heads, columns = [], []
    for column in dict.fromkeys(str(column) for row in table.rows for column in row.cells):
        figures = [line.figures.get(column) for line in found.rows]
        if not any(figures):
            continue
        if any(f and f.published is not None for f in figures):
            heads.append(f"{heading(column)} published")
            columns.append([figure(f.published, f.published_ci95, table.digits) if f else "" for f in figures])
        heads.append(f"{heading(column)} here")
        columns.append([figure(f.accuracy, f.ci95, table.digits) if f else "" for f in figures])
    lines = [f"| | {' | '.join(heads)} | training |", f"|---|{'---|' * len(heads)}---|"]
    for line, cells in zip(found.rows, zip(*columns, strict=True), strict=True):
        lines.append(f"| {line.label} | {' | '.join(cells)} | {minutes(known[line.row], found)} |")
    return lines


def _how_measured(found: Report, unit: str) -> list[str]:
    protocols = {
        f"{m.way}-way, {m.queries} queries, {m.episodes:,} episodes, seed {m.seed}" for m in found.measurements.values()
    }
    machines = {f"{run.machine or 'machine not noted'}, {run.precision}" for run in found.runs.values()}
    return [
        f"{'; '.join(sorted(protocols))}; mean and 95 % interval {unit}.",
        f"Trained with: {'; '.join(sorted(machines)) or 'not known'}. Table made on: {found.machine}.",
    ]
