"""Comparison of exported graphs with their originals, on realistic shapes."""

import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.features.onnx_runtime import check_model, open_session, run_session
from frn.heads.frn import FRNHead
from frn.models.model import Model
from frn.models.zoo import HEAD_FILE
from frn.ridge.enrolment import energy
from frn.ridge.parameters import HeadParameters
from frn_export.difference import Difference
from frn_export.graphs.traced_head import traced_head_graph

IMAGES = 4  # number of random images that test an extractor
FEATURE_TOLERANCE = 5e-6
"""Tolerance, as a fraction of the largest feature; float32 summation order causes much smaller differences."""
HALF_TOLERANCE = 1e-2
"""Tolerance for weights in half precision.

Each weight is off by up to 2^-11; the twelve layers of a ResNet-12 add up to 3e-3.
"""
HEAD_TOLERANCE = 5e-6
"""Tolerance, as a fraction of the query's energy, mean |q|^2, times (rho - 1)^2 if that is more than one.

Usual models stay below 1e-6; with 640 channels and many shots, float32 sums of 409,600 terms reach 2e-6 if rho is
small."""
COARSE_TOLERANCE = 2e-2  # tolerance for int8, where one grey level can move an activation to its next step


def compare_features(model: Model, graph: bytes, *, allowed: float = FEATURE_TOLERANCE) -> Difference:
    """Run `features.onnx` and torch in float64 on the same random pixels."""
    extractor = Extractor(graph, "the exported file", device="cpu")
    side = extractor.transform.size
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, side, side, 3), dtype=np.uint8)
    ours = extractor.feature_maps(pixels)
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        batch = torch.from_numpy(pixels).permute(0, 3, 1, 2).double() / 255
        truth = model.double().feature_maps(batch).numpy()
    model.to(dtype)
    share = float(np.abs(ours - truth).max() / np.abs(truth).max())
    return Difference("features.onnx", share, allowed, "the largest feature")


def compare_head(model: Model, graph: bytes) -> Difference:
    """Run `head.onnx` and torch's FRN head in float64 on random features: 1 to 5 shots, p on both sides of d."""
    assert isinstance(model.head, FRNHead)
    head = copy.deepcopy(model.head).double()
    learned = HeadParameters.of(model.head)
    session = open_session(graph, "head.onnx", device="cpu")
    h, w = model.grid
    r, d = h * w, model.d
    generator = np.random.default_rng(0)
    share = 0.0
    for shots in ([1] * 5, [5] * 5, [1, 5, 2, 4, 3], [d // r + 1, 1]):
        support, query = _features(generator, len(shots), max(shots), r, d), _features(generator, 3, r, d)
        for maps, shot in zip(support, shots, strict=True):
            maps[shot:] = 0
        inputs: dict[str, NDArray[Any]] = {"support": support, "shots": np.array(shots, dtype=np.int64), "query": query}
        errors, logits = run_session(session, ["class_error", "logits"], inputs)
        truth = _class_error(head, support, shots, query)
        unit = float(energy(query).mean()) * max(1.0, (learned.rho() - 1) ** 2)
        of_errors = np.abs(errors - truth).max()
        of_logits = np.abs(logits + learned.gamma * truth).max() / max(1.0, abs(learned.gamma))
        share = max(share, float(of_errors) / unit, float(of_logits) / unit)
    return Difference("head.onnx", share, HEAD_TOLERANCE, "the query's energy")


def verified_head(model: Model) -> tuple[bytes, Difference]:
    """Return `head.onnx` for any head, and its difference from torch in float64 on episodes of different sizes.

    Raises FrnError if the head cannot be exported.
    """
    data = traced_head_graph(model).SerializeToString(deterministic=True)
    check_model(data, f"the head of {model.config.method} cannot be exported as ONNX: its graph")  # as on opening
    session, head = open_session(data, HEAD_FILE, device="cpu"), copy.deepcopy(model.head).double()
    h, w = model.grid
    generator, share, logits = np.random.default_rng(0), 0.0, None
    for way, shot, queries in ((5, 1, 3), (2, 5, 1), (6, 3, 4)):
        support, query = (_features(generator, *sizes, h * w, model.d) for sizes in ((way, shot), (queries,)))
        with torch.no_grad():
            truth = head(torch.from_numpy(support).double(), torch.from_numpy(query).double()).numpy()
        with suppress(FrnError):
            (logits,) = run_session(session, ["logits"], {"support": support, "query": query})
        if logits is None or logits.shape != truth.shape:
            raise FrnError(f"the head of {model.config.method} cannot be exported as ONNX (its sizes are fixed)")
        share = max(share, float(np.abs(logits - truth).max() / max(1.0, np.abs(truth).max())))
    # Tolerance for other heads, as a fraction of the largest logit or of 1, whichever is larger
    return data, Difference(HEAD_FILE, share, 2e-5, "the largest logit").require()


def _features(generator: np.random.Generator, *shape: int) -> Maps:
    """Return random features like those of a network: half of them are zero."""
    return np.maximum(generator.standard_normal(shape, dtype=np.float32), 0)


@torch.no_grad()
def _class_error(head: FRNHead, support: Maps, shots: Sequence[int], query: Maps) -> NDArray[np.float64]:
    """Compute errors (q, way) in float64, each class with its own number of shots."""
    supports, queries = torch.from_numpy(support).double(), torch.from_numpy(query).double()
    errors = torch.empty(len(query), len(support), dtype=torch.float64)
    for shot in set(shots):
        alike = [label for label, count in enumerate(shots) if count == shot]
        errors[:, alike] = head.class_error(supports[alike, :shot], queries)
    return errors.numpy()
