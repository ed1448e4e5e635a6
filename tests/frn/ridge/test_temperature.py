"""Probabilities at few shots are milder; nothing else changes."""

import numpy as np
import pytest

from frn import FewShotClassifier
from frn.models.zoo import assets_folder
from frn.ridge.parameters import temperature

MOTHS = sorted((assets_folder() / "samples" / "moths").iterdir())[:4]
QUERIES = sorted((assets_folder() / "samples" / "queries").iterdir())[:6]


@pytest.mark.parametrize(
    ("shots", "factor"), [([1, 1], 0.2 ** (1 / 3)), ([5], 1), ([50, 9], 1), ([1, 3, 90], 0.6 ** (1 / 3))]
)
def test_gamma_falls_with_the_cube_root_of_the_typical_class(shots: list[int], factor: float) -> None:
    assert temperature(7.0, shots) == pytest.approx(7.0 * factor)


def test_one_shot_is_less_sure_and_calls_the_same_classes() -> None:
    one, five = (
        FewShotClassifier("conv4", device="cpu").fit({home.name: sorted(home.iterdir())[:k] for home in MOTHS})
        for k in (1, 5)
    )
    head = one._fitted.head
    assert one._fitted.gamma == pytest.approx(head.gamma * 0.2 ** (1 / 3))
    assert five._fitted.gamma == head.gamma

    sure = one.predict_proba(QUERIES)
    logits = np.log(sure) / 0.2 ** (1 / 3)  # as the head has learned it
    raw = np.exp(logits - logits.max(1, keepdims=True))
    assert (sure.max(1) < (raw / raw.sum(1, keepdims=True)).max(1)).all()
    assert one.predict(QUERIES).tolist() == one.classes_[raw.argmax(1)].tolist()
