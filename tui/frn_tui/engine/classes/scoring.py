"""Scores of photos."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.features.extractor import Embedded
from frn.images.boxes import split_box
from frn.inference.classifier import Classifier
from frn.inference.explanation import Box, explain
from frn.inference.explanation import Rebuilt as Explained
from frn.inference.lessons import advise
from frn.ridge.unlabelled.groups import group
from frn_tui.client.protocol import (
    MAPPED,
    Advise,
    AskClasses,
    ClassScore,
    DecidingPart,
    ExamplePart,
    ExplainPhoto,
    GroupPhotos,
    Rebuilt,
    Subject,
    Why,
)
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses
from frn_tui.engine.models import Models, describe
from frn_tui.engine.worker_queues import Job


def query(classes: EnrolledClasses, request: AskClasses, job: Job) -> None:
    """Classify photos; an unreadable one gets the reason as its answer, and the others continue."""
    paths = request.paths
    classifier = classes.current
    read = classes.read(job, paths)
    done, jointly = 0, request.jointly and len(paths) > 1
    at_once = 1 if classifier.state.search != "none" else 16  # a search takes longer than to score
    while batch := list(islice(read, None if jointly else at_once)):
        embedded = [outcome for _, outcome in batch if not isinstance(outcome, FrnError)]
        answers = iter(_answers(classes, classifier, embedded, with_maps=len(paths) == 1, jointly=jointly))
        for name, outcome in batch:
            answer = {} if isinstance(outcome, FrnError) else next(answers)
            job.check()
            described = describe(name, outcome)
            if not isinstance(outcome, FrnError):
                described |= {"key": classes.listed_key(outcome.key), **({"box": outcome.box} if outcome.box else {})}
                if classifier.state.search == "all":
                    described["subjects"] = _subjects(classes, classifier, name, job)
            job.event("answer", {**described, **answer})
        done += len(batch)
        job.progress(done, len(paths))


def _answers(
    classes: EnrolledClasses, classifier: Classifier, embedded: Sequence[Embedded], *, with_maps: bool, jointly: bool
) -> Iterator[dict[str, object]]:
    """Score photos together: one product for all is several times faster than one product each."""
    for each, prediction in zip(embedded, classifier.predictions(embedded, transductive=jointly), strict=True):
        entries = sorted(classifier.state.classes, key=lambda entry: prediction.errors[entry.name])
        answer = {
            "scores": [
                ClassScore(
                    id=entry.id,
                    probability=prediction.probabilities[entry.name],
                    error=prediction.errors[entry.name],
                    explained=prediction.explained[entry.name],
                )
                for entry in entries
            ],
            "nearest": classes.listed_key(classes.nearest(entries[0], each.key, each.maps)),
            **({} if math.isnan(prediction.known) else {"known": prediction.known}),
            "unknown": prediction.unknown,
            "transductive": prediction.transductive,
            "near_copy": classes.listed_key(prediction.near_copy_of.key) if prediction.near_copy_of else "",
        }
        if with_maps and classifier.extractor.head is None:
            answer["maps"] = {}
        elif with_maps:
            decides, seen = classifier.answering(each)
            answer["views"] = decides is not classifier
            heat = dict(zip(classifier.names, decides.error_maps(seen.maps, seen.key), strict=True))
            answer["maps"] = {str(entry.id): heat[entry.name].tolist() for entry in entries[:MAPPED]}
        yield answer


def _subjects(classes: EnrolledClasses, classifier: Classifier, name: str, job: Job) -> list[Subject]:
    """Classify all subjects of a photo."""
    ids = {entry.name: entry.id for entry in classifier.state.classes}
    read = dict(classes.models.read(job, classes.subjects(name, job)))
    embedded = {name: one for name, one in read.items() if not isinstance(one, FrnError)}
    answers = zip(embedded, classifier.predictions([*embedded.values()]), strict=True)
    return [Subject(id=ids[each.label], box=list(box)) for name, each in answers if (box := split_box(Path(name))[1])]


def explain_photo(classes: EnrolledClasses, request: ExplainPhoto, job: Job) -> Why:
    """Explain an answer. Raises FrnError if the photo cannot be read, or the head is not FRN's."""
    classifier, models = classes.current, classes.models
    ((_, outcome),) = classes.read(job, [request.path])
    if isinstance(outcome, FrnError):
        raise outcome

    decides, seen = classifier.answering(outcome)
    explanation = explain(decides, seen.maps, seen.key, find=partial(models.known, extractor=decides.extractor))
    unknown = decides.predict(seen.maps, seen.key).unknown
    h, w = explanation.shares.shape
    ids = {entry.name: entry.id for entry in classifier.state.classes}

    def rebuilt(one: Explained) -> Rebuilt:
        order = np.argsort(-one.of_photos(), kind="stable")[: request.examples].tolist()
        shown = [str(one.photos[number].path) for number in order]
        cells = [Box(x, y, 1, 1) for y, x in np.ndindex(h, w)]
        sources = [
            [
                ExamplePart(path=str(s.photo.path), box=list(s.box.within((h, w))), share=s.share)
                for s in one.sources(cell, len(one.photos), one_each=True)
                if str(s.photo.path) in shown
            ]
            for cell in cells
        ]
        return Rebuilt(id=ids[one.name], explained=list(map(one.explained, cells)), examples=shown, sources=sources)

    return Why(
        sentence=explanation.sentence(unknown=unknown),
        grid=[h, w],
        views=decides is not classifier,
        shares=explanation.shares.ravel().tolist(),
        parts=[DecidingPart(box=list(part.box.within((h, w))), share=part.share) for part in explanation.parts()],
        classes=[rebuilt(one) for one in (explanation.best, explanation.other) if one is not None],
    )


def advice(classes: EnrolledClasses, request: Advise, job: Job) -> list[str]:
    return advise(classes.current, classes.models.known)


def group_photos(models: Models, request: GroupPhotos, job: Job) -> list[list[str]]:
    """Group photos; near copies are in the group of their photo, and unreadable photos in none."""
    read: dict[str, tuple[str, Embedded]] = {}
    for name, outcome in models.read(job, request.paths):
        if not isinstance(outcome, FrnError):
            read.setdefault(outcome.key, (name, outcome))
        job.progress(len(read), len(request.paths))
    if not read:
        raise FrnError("no photos to group")
    names, embedded = zip(*read.values(), strict=True)
    maps, looks = np.stack([each.maps for each in embedded]), [each.look for each in embedded]
    groups = group(maps, looks, models.extractor.prior)
    return [[names[place] for near in near_copies for place in near] for near_copies in groups]
