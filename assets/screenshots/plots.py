"""Draw the plots in the documentation from the tables on the same pages: `python assets/screenshots/plots.py`."""

import re
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs"
FRN, OTHER = "#00796b", "#b0bec5"
LABELS = dict.fromkeys(("proto", "covariance"), ((0, -11), "center"))
LABELS |= {"deepbdc": ((-5, -6), "right"), "frn-tdm": ((-5, 1), "right")}
LABELS |= dict.fromkeys(("ctx", "dsn", "mcl", "srm"), ((5, -2), "left"))
"""Places of labels that would cover others above their point."""

plt.rcParams |= {"svg.hashsalt": "frn", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}
plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its header row."""
    text = (PAGES / page).read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    rows = re.search(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert rows is not None, heading
    return [
        [cell.strip(" *`").replace("`", "") for cell in row.strip("|").split("|")] for row in rows[0].splitlines()[2:]
    ]


def number(cell: str) -> tuple[float, float]:
    """Return the value and half the width of its interval, from a cell such as `71.71 ± 0.23`, `4.1-4.2` or `290`."""
    if "±" in cell:
        value, _, half = cell.partition("±")
        return float(value.strip(" *")), float(half)
    low, _, high = cell.partition("-")
    return (float(low) + float(high or low)) / 2, (float(high or low) - float(low)) / 2


def save(figure: plt.Figure, name: str) -> None:
    """Write a plot so that the same plot gives the same bytes."""
    figure.tight_layout()
    figure.savefig(HERE / name, metadata={"Date": None})
    plt.close(figure)


def accuracy() -> None:
    """Plot the accuracy of FRN and ProtoNet at 1 and 5 shots, on classes that neither has seen."""
    rows = table("background/results.md", "## Photos")
    figure, sides = plt.subplots(1, 2, figsize=(7, 2.4), sharey=True)
    for side, title, columns in zip(sides, ("1-shot", "5-shot"), ((1, 3), (2, 4)), strict=True):
        for offset, column, label, colour, text in (
            (-0.2, columns[0], "FRN", FRN, "white"),
            (0.2, columns[1], "ProtoNet", OTHER, "black"),
        ):
            values, halves = zip(*(number(row[column]) for row in rows), strict=True)
            places = [place + offset for place in range(len(rows))]
            side.barh(places, values, 0.4, xerr=halves, color=colour, label=label)
            for place, value in zip(places, values, strict=True):
                side.text(value - 1.5, place, f"{value:.1f}", va="center", ha="right", fontsize=8, color=text)
        side.set(title=title, xlabel="accuracy in percent, 5-way", xlim=(20, 100))
    sides[0].set_yticks(range(len(rows)), [row[0].partition(",")[0].partition(" and ")[0] for row in rows])
    sides[0].invert_yaxis()
    figure.legend(*sides[0].get_legend_handles_labels(), frameon=False, loc="lower left", fontsize=8)
    save(figure, "accuracy.svg")


def speed() -> None:
    """Plot the speed-up over the paper's formulations and the authors' loops, on a logarithmic axis."""
    rows = table("background/speed.md", "# Speed and memory")
    figure, axes = plt.subplots(figsize=(7, 2.4))
    values = [number(row[2])[0] for row in rows]
    axes.barh(range(len(rows)), values, color=FRN)
    for place, (value, row) in enumerate(zip(values, rows, strict=True)):
        axes.text(value * 1.06, place, f"{row[2]} x", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.invert_yaxis()
    axes.set(xscale="log", xlim=(1, 600), xlabel="times as fast")
    axes.xaxis.set_major_formatter("{x:g}")
    save(figure, "speed.svg")


def heads() -> None:
    """Plot the accuracy of the trained heads against their time and against the size of a class."""
    rows = [row for row in table("lab/speed.md", "## What each head costs") if row[3] != "not measured"]
    figure, sides = plt.subplots(1, 2, figsize=(7, 2.6), sharey=True)
    for side, column, label in zip(sides, (1, 2), ("microseconds of a photo", "bytes of a class"), strict=True):
        for row in rows:
            place = float(row[column].replace(",", "")), float(row[3])
            side.scatter(*place, color=FRN if row[0] == "frn" else OTHER)
            offset, align = LABELS.get(row[0], ((0, 5), "center"))
            side.annotate(row[0], place, offset, textcoords="offset points", ha=align, fontsize=7)
        side.set(xscale="log", xlabel=label)
        side.margins(0.15)
    sides[0].set_ylabel("5-shot accuracy in percent")
    save(figure, "heads.svg")


if __name__ == "__main__":
    accuracy()
    speed()
    heads()
