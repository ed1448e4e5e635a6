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
def app(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address of the app's page and the process that serves it."""
    pytest.importorskip("textual_serve", reason="needs textual-serve")
    command = [sys.executable, "-m", "frn_tui.main", "--web", "--port", "0", "--model", "conv4"]
    environ = {**os.environ, "FRN_STATE": str(tmp_path)}
    with processes.started(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1], process.pid


def test_photos_are_drawn_as_pixels_on_the_page(app: tuple[str, int], show: Callable[..., Any]) -> None:
    """Half blocks would show hundreds of colours; photos drawn as pixels have thousands."""
    browser = show(app[0])
    deadline = time.monotonic() + TIMEOUT
    while (colours := browser.execute_script(COLOURS)) < 5000 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert colours >= 5000
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_page_of_another_site_cannot_frame_the_app(
    app: tuple[str, int], serve: Callable[[Path], str], show: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text(f'<iframe src="{app[0]}"></iframe>')
    browser = show(serve(tmp_path))
    deadline = time.monotonic() + TIMEOUT
    while not (lines := browser.get_log("browser")) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "frame-ancestors 'none'" in lines[0]["message"]


def test_closed_page_ends_its_processes(app: tuple[str, int], show: Callable[..., Any]) -> None:
    browser = show(app[0])
    deadline = time.monotonic() + TIMEOUT
    while not processes.children(app[1], "frn_tui.engine") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes.children(app[1], "frn_tui.engine")
    browser.get("about:blank")
    while processes.children(app[1]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not processes.children(app[1])
