"""Comparing what was exported with what it was exported from, on real shapes."""

from dataclasses import dataclass

import numpy as np
import torch

from frn.errors import FrnError
from frn.inference.extractor import Extractor
from frn.model import Model

FEATURE_TOLERANCE = 5e-6
"""Of the largest feature; float32 in another order of summation stays well below."""


@dataclass(frozen=True, slots=True)
class Parity:
    """Largest difference between onnxruntime in float32 and torch in float64, as a share of the largest feature."""

    features: float

    def require(self) -> None:
        """Refuse a file that computes something else.

        Raises:
            FrnError: with the difference found.
        """
        if not self.features <= FEATURE_TOLERANCE:
            raise FrnError(
                f"the exported features differ from torch's by {self.features:.1e} of the largest; at most "
                f"{FEATURE_TOLERANCE:.0e} is allowed. Nothing was written."
            )


def compare_features(model: Model, graph: bytes, *, images: int = 4, seed: int = 0) -> Parity:
    """Run both on the same random pixels.

    Args:
        model: the torch model, in evaluation mode.
        graph: bytes of its `features.onnx`.
        images: how many.
        seed: of the pixels.
    """
    extractor = Extractor(graph, "the exported file", device="cpu")
    side = extractor.transform.size
    pixels = np.random.default_rng(seed).integers(0, 256, (images, side, side, 3), dtype=np.uint8)
    ours = extractor.feature_maps(pixels)
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        batch = torch.from_numpy(pixels).permute(0, 3, 1, 2).double() / 255
        truth = model.double().feature_maps(batch).numpy()
    model.to(dtype)
    return Parity(float(np.abs(ours - truth).max() / np.abs(truth).max()))
