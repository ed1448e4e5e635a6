"""Drawn moths: six similar classes with five small examples each, and three queries of each class.

`tests/drawn/draw.py` draws them. They are tiny and never change, so tests may state the answers for them.
"""

from pathlib import Path

DRAWINGS = Path(__file__).parent / "drawn"
MOTHS, QUERIES = DRAWINGS / "moths", DRAWINGS / "queries"
PHOTO = QUERIES / "eyed footman 6.jpg"
