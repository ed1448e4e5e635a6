"""The web page decodes colours as `frn classify` does."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frn_export.web
import numpy as np

from frn.images.opening import open_image
from tests.pngs import COLOUR_CHUNKS, SWATCHES, png

DECODE = """
const [encoded, done] = arguments;
fetch(`data:image/png;base64,${encoded}`)
  .then((answer) => Promise.all([answer.blob(), import("/photo.js")]))
  .then(([photo, { decode }]) => decode(photo))
  .then(({ data }) => done([...data]), (error) => done(String(error)));
"""


def test_page_reads_colour_chunks_as_python_does(
    tmp_path: Path, serve: Callable[[Path], str], show: Callable[..., Any]
) -> None:
    browser = show(serve(Path(frn_export.web.__file__).parent) + "photo.js")
    for name, (chunks, _) in COLOUR_CHUNKS.items():
        path = png(tmp_path / "x.png", SWATCHES, 8, chunks=chunks)
        seen = browser.execute_async_script(DECODE, base64.b64encode(path.read_bytes()).decode())
        assert np.abs(np.array(seen) - np.asarray(open_image(path)).astype(int).ravel()).max() <= 1, name
