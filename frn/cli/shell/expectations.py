"""What commands say of enrolled classes: the head chosen for them, and what to expect of unknown photos."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frn.inference.classifier import Classifier


def describe_head(classifier: "Classifier") -> str:
    """Which alpha and gamma the classes have, and where they come from."""
    photos = sum(len(entry.supports) for entry in classifier.state.classes)
    chosen, trained = classifier.head, classifier.extractor.head
    before = ""
    if trained and not classifier.extractor.untrained_head:
        before = f"; trained values {trained.alpha:.1f} and {trained.gamma:.1f}"
    return f"alpha {chosen.alpha:.1f} and gamma {chosen.gamma:.1f}, chosen from your {photos:,} photos{before}"


def expectation(classifier: "Classifier") -> dict[str, float | None]:
    """The calibrated rule's expected shares, as JSON; null if the examples cannot tell."""
    found = classifier.calibration
    shares = {"false_rejections": found.false_rejections, "caught": found.caught, "auroc": found.auroc}
    return {name: None if math.isnan(share) else round(share, 6) for name, share in shares.items()}
