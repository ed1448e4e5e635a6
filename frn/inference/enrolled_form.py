"""Enrolled classes as bytes, so that reopening a project needs no computation.

The form holds everything that enrolment computes from the feature maps of the examples, so answers are identical to the
last bit. The feature cache stores it. The key of an entry covers the class names, the content of the photos and the
code that computes it, so a change to any of them leads to a different form.

Shape letters: way classes, m rows of all classes together, k supports of all classes together, r locations, d channels,
n examples that calibrate the threshold.
"""

import hashlib
import inspect
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from frn._version import __version__
from frn.images import near_copies
from frn.inference import unknown
from frn.inference.session import State
from frn.inference.unknown import Shares
from frn.ridge import enrolment, leave_one_out, parameters, tuning
from frn.ridge.enrolment import Array, EnrolledClass
from frn.ridge.parameters import HeadParameters

COMPUTED_BY = (enrolment, leave_one_out, parameters, tuning, unknown, near_copies)
"""Modules whose code determines the content of a form."""


@dataclass(frozen=True, slots=True)
class EnrolledForm:
    """Everything that a classifier stores about its classes."""

    head: HeadParameters
    """Alpha, beta and gamma, chosen for these classes."""
    classes: Mapping[str, EnrolledClass]
    leave_one_out: Mapping[str, Shares]
    """Fraction of each example that the rest of its class reconstructs, for classes with at least two."""
    own_errors: Mapping[str, tuple[str, Array]]
    """Class and location errors (r,) of each example by leave-one-out, by content key."""
    left_out: tuple[Array, NDArray[np.intp], Shares, Array]
    """Leave-one-out errors (n, way) of examples, their classes, their energies and distances (n, way)."""
    looks: Mapping[str, bytes]
    """Perceptual hash of each example by content key."""


def form_key(state: State, prior: object) -> str:
    """Return the key of a state's form: a hash of its class names, photos and prior, in order."""
    classes = [[entry.name, [support.key for support in entry.supports]] for entry in state.classes]
    text = json.dumps([_code_digest(), repr(prior), classes])
    return "classes-" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def head_document(head: HeadParameters, state: State, prior: object) -> dict[str, object]:
    """Return the chosen head as a project stores it: its numbers, and the key of the classes they were chosen for."""
    return {"of": form_key(state, prior), **asdict(head)}


def head_of(document: object, state: State, prior: object) -> HeadParameters | None:
    """Return the head that a project stores, if it was chosen for these classes by this code; otherwise None."""
    if not isinstance(document, dict) or document.get("of") != form_key(state, prior):
        return None
    try:
        return HeadParameters.from_metadata({name: value for name, value in document.items() if name != "of"})
    except (TypeError, ValueError):
        return None


@cache
def _code_digest() -> str:
    try:
        code = "".join(map(inspect.getsource, COMPUTED_BY))
    except OSError:  # installed without sources
        code = __version__
    return hashlib.blake2b(code.encode()).hexdigest()


def to_bytes(form: EnrolledForm) -> bytes:
    """Return the form as an `.npz` archive of arrays."""
    classes = list(form.classes.values())
    file = io.BytesIO()
    np.savez(
        file,
        head=np.array(astuple(form.head)),
        rows=np.concatenate([each.rows for each in classes]),
        signs=np.concatenate([each.signs for each in classes]),
        centres=np.stack([each.centre for each in classes]),
        own_errors=np.stack([error for _, error in form.own_errors.values()]),
        shares=np.concatenate([np.zeros(0), *form.leave_one_out.values()]),
        lengths=np.array([len(each.rows) for each in classes]),
        errors=form.left_out[0],
        labels=form.left_out[1],
        energies=form.left_out[2],
        distances=form.left_out[3],
        looks=np.frombuffer(b"".join(form.looks[key] for key in form.own_errors), np.uint8),
    )
    return file.getvalue()


def from_bytes(data: bytes, state: State) -> EnrolledForm:
    """Return the form of a state from the bytes that `to_bytes` returned."""
    with np.load(io.BytesIO(data)) as held:
        cuts = np.cumsum(held["lengths"])[:-1]
        rows, signs = np.split(held["rows"], cuts), np.split(held["signs"], cuts)
        names = [entry.name for entry in state.classes]
        several = [entry for entry in state.classes if len(entry.supports) > 1]
        ends = np.cumsum([len(entry.supports) for entry in several], dtype=int)
        shares = dict(zip((entry.name for entry in several), np.split(held["shares"], ends[:-1]), strict=False))
        owners = [(support.key, entry.name) for entry in state.classes for support in entry.supports]
        own_errors = {key: (name, row) for (key, name), row in zip(owners, held["own_errors"], strict=True)}
        looks = held["looks"].reshape(len(owners), -1)
        return EnrolledForm(
            HeadParameters(*held["head"].tolist()),
            dict(zip(names, map(EnrolledClass, rows, signs, held["centres"]), strict=True)),
            shares,
            own_errors,
            (held["errors"], held["labels"], held["energies"], held["distances"]),
            {key: look.tobytes() for (key, _), look in zip(owners, looks, strict=True)},
        )
