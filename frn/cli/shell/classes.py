"""Functions that open enrolled classes and describe the expected results for unknown photos."""

from pathlib import Path
from typing import TYPE_CHECKING

from frn.cli.shell.console import live_text, note, report_skipped, stdout
from frn.errors import FrnError
from frn.projects.names import lookalikes

if TYPE_CHECKING:
    from frn.features.extractor import Tta
    from frn.features.onnx_runtime import Device
    from frn.inference.classifier import Classifier
    from frn.projects.session import Find


def open_classes(
    classes: Path,
    model: str | None,
    device: "Device" = "auto",
    tta: "Tta | None" = None,
    *,
    level: int | None = None,
    find: "Find | None" = None,
    threshold: float | None = None,
    false_rejections: float | None = None,
) -> "Classifier":
    """Enroll classes and report their skipped files."""
    from frn.estimator.loading import load_classifier
    from frn.inference.unknown.calibration import FALSE_REJECTIONS

    with live_text(f"enrolling {classes}"):
        classifier, skipped = load_classifier(classes, model, device, tta, level, find)
    report_skipped([*skipped, *lookalikes(classifier.names)])
    if unchecked := classifier.calibration.unchecked:
        note(f"warning: {unchecked}")
    if threshold is not None:
        classifier.threshold_override = threshold
    if false_rejections is not None:
        if classifier.threshold_override is not None and false_rejections != FALSE_REJECTIONS:
            set_by = "the project" if threshold is None else "--threshold"
            raise FrnError(f"--false-rejections has no effect: {set_by} sets the threshold. Remove one of them.")
        classifier.false_rejections = false_rejections
    return classifier


def show_expected(classifier: "Classifier") -> None:
    """Print the expected error rates, unless the user set the threshold."""
    if classifier.threshold_override is None or classifier.calibration.unchecked:
        stdout().print(f"expected: {classifier.calibration.describe()}")


def expectation(classifier: "Classifier") -> dict[str, float | str]:
    """Return the rates expected with the calibrated threshold, also as text; NaN if the examples allow no estimate."""
    calibration = classifier.calibration
    return {
        "false_rejections": calibration.rejected,
        "caught": calibration.caught,
        "caught_error": calibration.caught_error,
        "auroc": calibration.auroc,
        "text": calibration.describe(),
    }
