"""Add the scripts' folder to the import path, as Python does when it runs a script."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "assets" / "teaching"))
