"""A headless Chromium, if it is installed."""

import functools
import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PHONE, WIDE = (390, 844), (1280, 900)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Driver for a headless Chromium that keeps console messages."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("needs Chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_script_timeout(300)  # seconds; enough for 200 photos on a busy machine
    yield opened
    opened.quit()


@pytest.fixture
def show(chromium: Any) -> Callable[..., Any]:
    """Open a URL at a window size, light or dark, and return the driver."""

    def opened(address: str, size: tuple[int, int] = WIDE, *, dark: bool = False) -> Any:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        chromium.get_log("browser")  # discard messages from earlier pages
        chromium.get(address)
        return chromium

    return opened


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve a folder as `python -m http.server` does, and return its URL."""
    servers = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    def served(folder: Path) -> str:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/"

    yield served
    for server in servers:
        server.shutdown()
        server.server_close()
