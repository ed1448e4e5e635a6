"""`frn-tui --web` shows real images in a browser."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import processes

TIMEOUT = 60.0
COLOURS = """
const canvas = document.getElementById("pictures");
if (!canvas || !canvas.width) return 0;
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const colours = new Set();
for (let at = 0; at < data.length; at += 4) {
  if (data[at + 3]) colours.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
}
return colours.size;
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("textual_serve", reason="needs textual-serve")
    command = [sys.executable, "-m", "frn_tui.main", "--web", "--port", "0"]
    environ = {**os.environ, "FRN_STATE": str(tmp_path)}
    with processes.started(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]


def test_photos_are_drawn_as_pixels_on_the_page(address: str, show: Callable[..., Any]) -> None:
    """Half blocks would show hundreds of colours; photos drawn as pixels have thousands."""
    browser = show(address)
    deadline = time.monotonic() + TIMEOUT
    while (colours := browser.execute_script(COLOURS)) < 5000 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert colours >= 5000
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]
