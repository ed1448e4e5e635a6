"""`frn eval --report`: what one evaluation showed, as a page."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from frn.evaluation.findings import Findings, HardEpisode, HardImage, Mistake
from frn.images.transforms import Pixels
from frn.inference.explanation import overlay
from frn.inference.unknown import auroc
from frn.report.charts import histograms, intervals, reliability
from frn.report.page import escape, figure, made_by, page, picture, scrolling, section, share_class, table

MATRIX = 40
"""Up to this many classes, the whole confusion matrix is shown."""
PAIRS = 15


def evaluation_page(model: str, found: Sequence[Findings], command: str, facts: Mapping[str, str]) -> str:
    """A page of an evaluation: one part per shape. `facts` go beside the command that makes it again."""
    links = " · ".join(f'<a href="#{_name(part)}">{escape(_title(part))}</a>' for part in found)
    lead = f'<p class="note">{links} · <a href="#made">how this was made</a></p>'
    sections = [_accuracy(found)]
    for part in found:
        sections += _shape(part)
    return page(f"{model}: accuracy over episodes", lead, [*sections, made_by(command, facts)])


def _title(part: Findings) -> str:
    return f"{part.result['way']}-way {part.result['shot']}-shot"


def _name(part: Findings) -> str:
    return f"shot-{part.result['shot']}"


def _accuracy(found: Sequence[Findings]) -> str:
    rows, spans = [], []
    for part in found:
        result = part.result
        spans.append((f"{result['shot']}-shot", result["accuracy"], result["ci95"]))
        cells = (f"{result['accuracy']:.2f} ± {result['ci95']:.2f} %", f"{100 * part.calibration.error:.2f} %")
        counts = (f"{result['episodes']:,}", str(result["queries"]))
        rows.append((f'<a href="#{_name(part)}">{_title(part)}</a>', *cells, *counts))
    heads = ("", "accuracy", "calibration error", "episodes", "queries per class")
    content = f'<div class="grid2">{table(heads, rows, label="Accuracy")}{intervals(spans)}</div>'
    note = "Mean over random episodes and its 95% interval, 1.96 standard deviations over the root of the episodes."
    return section("Accuracy", content, note=note)


def _shape(part: Findings) -> list[str]:
    title = _title(part)
    sections = [
        section(
            f"{title}: can its probabilities be trusted?",
            reliability(part.calibration),
            note=f"Expected calibration error {100 * part.calibration.error:.2f} %: the gap between the probability of "
            "an answer and how often such answers are right. Bars below the line: too sure; above it: not sure enough.",
            name=_name(part),
        ),
        _explained(part, title),
        section(
            f"{title}: by class",
            _by_class(part),
            note="Share of a class's queries that got it, with its 95% interval over the episodes that drew it.",
        ),
        section(f"{title}: what is taken for what", _confusion(part), note=_confusion_note(part)),
    ]
    if part.images:
        note = (
            "Photos with the largest share of wrong answers, each in the episode with its surest mistake, with that "
            "episode's examples of both classes. Colours from dark to light: how badly each class rebuilds each place."
        )
        images = "".join(_hard_image(image) for image in part.images)
        sections.append(section(f"{title}: hardest photos", f'<div class="grid2">{images}</div>', note=note))
        episodes = "".join(_hard_episode(episode) for episode in part.episodes)
        note = "Episodes with the fewest right answers: the examples that were drawn, and what was taken for another."
        sections.append(section(f"{title}: hardest episodes", episodes, note=note))
    return sections


def _explained(part: Findings, title: str) -> str:
    heading = f"{title}: known and unknown photos"
    if part.explained is None:
        reason = "Not measured: it needs twice as many classes as an episode has, and a head that reconstructs."
        return section(heading, "", note=reason)
    known, unknown = part.explained
    names = (f"of the episode's classes ({len(known):,})", f"of other classes ({len(unknown):,})")
    note = (
        "Share of a query's energy that the best class explains. A known query has a larger one than an unknown query "
        f"in {auroc(known, unknown):.1%} of all pairs."
    )
    return section(heading, histograms(known, unknown, names), note=note)


def _by_class(part: Findings) -> str:
    mean, half_width = part.recall
    order = np.argsort(np.nan_to_num(mean, nan=101), kind="stable")
    said = part.confusion.sum(0)
    rows = []
    for c in order:
        others = np.where(np.arange(len(part.names)) == c, 0, part.confusion[c])
        confused = escape(part.names[others.argmax()]) if others.any() else ""
        share = "never drawn" if np.isnan(mean[c]) else f"{mean[c]:.1f} ± {half_width[c]:.1f} %"
        precision = f"{part.confusion[c, c] / said[c]:.1%}" if said[c] else ""
        rows.append((escape(part.names[c]), _meter(np.nan_to_num(mean[c])), share, precision, confused))
    heads = ("class", "", "got it", "of those so called, right", "most often taken for")
    return table(heads, rows, label="Accuracy by class")


def _meter(percent: float) -> str:
    return f'<span class="meter"><i class="{share_class(percent / 100)}"></i></span>'


def _confusion_note(part: Findings) -> str:
    if len(part.names) <= MATRIX:
        return "Rows: what a query was; columns: what it was taken for, in percent of the row."
    return f"The most frequent mistakes of {len(part.names)} classes, in percent of the class's queries."


def _confusion(part: Findings) -> str:
    asked = part.confusion.sum(1, keepdims=True)
    shares = part.confusion / np.maximum(asked, 1)
    mistakes = np.where(np.eye(len(shares), dtype=bool), 0, shares)
    pairs = np.argsort(-mistakes, axis=None, kind="stable")[:PAIRS]
    rows = []
    for truth, answer in zip(*np.unravel_index(pairs, shares.shape), strict=True):
        if mistakes[truth, answer] > 0:
            counts = f"{part.confusion[truth, answer]:,} of {asked[truth, 0]:,}"
            names = (escape(part.names[truth]), escape(part.names[answer]))
            rows.append((*names, f"{mistakes[truth, answer]:.1%}", counts))
    listed = table(("was", "taken for", "share", "queries"), rows, label="Most frequent mistakes")
    return (_matrix(part.names, shares) if len(part.names) <= MATRIX else "") + listed


def _matrix(names: Sequence[str], shares: NDArray[np.float64]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = []
    for truth, name in enumerate(names):
        cells = []
        for answer, share in enumerate(shares[truth]):
            kind = "right" if truth == answer else "taken"
            told = f"{escape(name)} taken for {escape(names[answer])}: {share:.1%}"
            shown = f"{100 * share:.0f}" if share >= 0.005 else ""
            cells.append(f'<td class="{kind} {share_class(share)}" title="{told}">{shown}</td>')
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    body = f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return scrolling(f'<table class="matrix">{body}</table>', "Confusion matrix")


def _hard_image(hard: HardImage) -> str:
    mistake = hard.mistake
    caption = f"{escape(mistake.truth)}, photo {mistake.number}"
    shown = [figure(picture(mistake.crop, mistake.truth), caption, "photo")]
    if hard.error_maps:
        maps = np.stack(list(hard.error_maps.values()))
        low, high = float(maps.min()), float(maps.max())
        for name, error_map in hard.error_maps.items():
            rendered = overlay(mistake.crop, error_map, low=low, high=high)
            told = f"by {escape(name)}: error {error_map.mean():.3g}"
            shown.append(figure(picture(rendered, f"error map of {name}"), told, "photo"))
    examples = "".join(
        f'<p class="note">{escape(name)}</p><div class="row">{_thumbs(crops, name)}</div>'
        for name, crops in hard.supports.items()
    )
    head = (
        f"<h3>{escape(mistake.truth)} taken for {escape(mistake.answer)}</h3>"
        f'<p class="note">wrong {hard.wrong:,} of {hard.asked:,} times; here with {mistake.probability:.1%}</p>'
    )
    details = f"<details><summary>Examples</summary>{examples}</details>"
    return f'<div>{head}<div class="row">{"".join(shown)}</div>{details}</div>'


def _hard_episode(episode: HardEpisode) -> str:
    parts = [f"<h3>Episode {episode.number}: {episode.accuracy:.1f} % right</h3>"]
    rows = []
    for name, crops in episode.supports.items():
        wrong = "".join(_wrong(mistake) for mistake in episode.mistakes[name])
        shown = f'<div class="row">{wrong}</div>' if wrong else '<span class="faint">all right</span>'
        rows.append((escape(name), f'<div class="row">{_thumbs(crops, name)}</div>', shown))
    parts.append(table(("class", "examples", "taken for another"), rows, label=f"Episode {episode.number}"))
    return "".join(parts)


def _wrong(mistake: Mistake) -> str:
    told = f"{escape(mistake.answer)} {mistake.probability:.0%}"
    return figure(picture(mistake.crop, mistake.truth), told, "thumb wrong")


def _thumbs(crops: Sequence[Pixels], name: str) -> str:
    return "".join(f'<span class="thumb">{picture(crop, f"example of {name}")}</span>' for crop in crops)
