"""Messages during training."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from frn.cli.train.training_display import LASTING, training_display
from frn.evaluation.accuracy import Accuracy
from frn.training.loop import StepReport, ValidationReport


def test_log_contains_a_line_per_epoch_and_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that takes hours and writes to a file should show that it is still running."""
    told = []
    with training_display(3, tmp_path) as display:
        for epoch in (1, 2, 3):
            for step in (1, 2):
                display(StepReport(epoch, step, 2, 1.5, 40.0))
            told.append(capsys.readouterr().err)
        display(ValidationReport(3, Accuracy(71.25, 0.5, 300), True))
    for epoch, line in enumerate(told, start=1):
        pattern = rf"epoch {epoch}/3: loss 1\.500  accuracy 40\.0%\n"
        assert re.fullmatch(pattern, line), line
    assert capsys.readouterr().err == f"epoch 3: validation {Accuracy(71.25, 0.5, 300)}  best so far\n"


def test_lasting_divergence_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = StepReport(1, 1, 500, 3.4, 5.0)
    ill = replace(sound, divergence="rho is 2e-06: no class reconstructs anything")
    with training_display(1, tmp_path) as display:
        for step in [ill] * (LASTING - 1) + [sound] + [ill] * (LASTING - 1):
            display(step)
        assert "warning" not in capsys.readouterr().err
        for _ in range(LASTING):
            display(ill)
    told = capsys.readouterr().err
    assert told.count("warning: rho is 2e-06") == 1
    assert "--warm-up 200" in told
