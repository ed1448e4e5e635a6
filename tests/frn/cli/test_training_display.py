"""What is told during a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from frn.cli.training_display import LASTING, TrainingDisplay
from frn.training.loop import StepReport
from frn.training.presets import demo


def test_lasting_trouble_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = StepReport(1, 1, 500, 3.4, 5.0)
    ill = replace(sound, trouble="rho is 2e-06: no class rebuilds anything")
    with TrainingDisplay(demo(), tmp_path) as display:
        for step in [ill] * (LASTING - 1) + [sound] + [ill] * (LASTING - 1):
            display(step)
        assert "warning" not in capsys.readouterr().err
        for _ in range(LASTING):
            display(ill)
    told = capsys.readouterr().err
    assert told.count("warning: rho is 2e-06") == 1
    assert "--warm-up 200" in told
