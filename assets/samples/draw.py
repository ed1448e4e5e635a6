"""Draws the sample images beside this file: `python assets/samples/draw.py`."""

from pathlib import Path

from frn.data.moths import write_samples

write_samples(Path(__file__).parent)
