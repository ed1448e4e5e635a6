"""Draws the sample images beside this file and the picture of them in docs/app.md: `python assets/samples/draw.py`."""

from pathlib import Path

from PIL import Image

from frn.data.synthetic import write_samples

SIDE, GAP = 100, 4

here = Path(__file__).parent
write_samples(here)
queries = sorted((here / "queries").glob("*.jpg"))  # three of each class, class by class
columns = len(queries) // 3
overview = Image.new("RGB", (columns * (SIDE + GAP) - GAP, 3 * (SIDE + GAP) - GAP), "white")
for number, path in enumerate(queries):
    column, row = divmod(number, 3)
    moth = Image.open(path).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    overview.paste(moth, (column * (SIDE + GAP), row * (SIDE + GAP)))
overview.quantize(128).save(here.parent / "screenshots" / "moths.png", optimize=True)
