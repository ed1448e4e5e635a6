"""Enrolled classes as bytes, so that reopening a project needs no computation.

The form holds everything that enrolment computes from the feature maps of the examples, so answers are identical to the
last bit. The feature cache stores it. The key of an entry covers the class names, the content of the photos and a
version, so a change to any of them leads to a different form.

Shape letters: way classes, r locations, n examples that calibrate the threshold.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from frn.inference.extractor import Extractor
from frn.inference.session import State
from frn.inference.unknown import Shares
from frn.ridge.enrolment import Array, EnrolledClass
from frn.ridge.parameters import HeadParameters

FORM_VERSION = 2
"""Version of a form's content: increase it if enrolment, tuning or the perceptual hash compute something else."""


@dataclass(frozen=True, slots=True)
class EnrolledForm:
    """Everything that a classifier stores about its classes."""

    head: HeadParameters
    """Alpha, beta and gamma, chosen for these classes."""
    classes: dict[str, EnrolledClass]
    leave_one_out: dict[str, Shares]
    """Fraction of each example that the rest of its class reconstructs, for classes with at least two."""
    own_errors: dict[str, tuple[str, Array]]
    """Class and location errors (r,) of each example by leave-one-out, by content key."""
    left_out: tuple[Array, NDArray[np.intp], Shares, Array] | None
    """Leave-one-out errors (n, way) of examples, their classes, their energies and distances (n, way)."""
    looks: dict[str, bytes]
    """Perceptual hash of each example by content key."""


def form_key(state: State, extractor: Extractor) -> str:
    """Return the key of a state's form: a hash of the extractor, its prior, and the class names and photos in order."""
    classes = [[entry.name, [support.key for support in entry.supports]] for entry in state.classes if entry.supports]
    text = json.dumps([FORM_VERSION, extractor.sha256, repr(extractor.prior), classes])
    return "classes-" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def head_document(head: HeadParameters, state: State, extractor: Extractor) -> dict[str, object]:
    """Return the chosen head as a project stores it: its numbers, and the key of the classes they were chosen for."""
    return {"of": form_key(state, extractor), **asdict(head)}


def head_of(document: object, state: State, extractor: Extractor) -> HeadParameters | None:
    """Return the head that a project stores, if it was chosen for these classes by this version; otherwise None."""
    if not isinstance(document, dict) or document.get("of") != form_key(state, extractor):
        return None
    try:
        return HeadParameters.from_metadata({name: value for name, value in document.items() if name != "of"})
    except (TypeError, ValueError):
        return None


def to_bytes(form: EnrolledForm) -> bytes:
    """Return the form as MessagePack; an array becomes its type, shape and values."""
    return msgspec.msgpack.encode(form, enc_hook=lambda array: (array.dtype.str, array.shape, array.tobytes()))


def from_bytes(data: bytes) -> EnrolledForm:
    """Return the form from the bytes that `to_bytes` returned."""

    def array(kind: type, found: Any) -> NDArray[Any]:
        dtype, shape, values = found
        return np.frombuffer(values, dtype).reshape(shape)

    return msgspec.msgpack.decode(data, type=EnrolledForm, dec_hook=array)
