"""The scripts import what lies beside them, as Python does for a script."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "assets" / "teaching"))
