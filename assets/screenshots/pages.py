"""Make the images of reports and of the web page for docs/, each as a wide light and a narrow dark window.

python assets/screenshots/pages.py

The script needs selenium, Chromium, chromedriver and, in the current folder, the archive from `npm pack
onnxruntime-web`. All photos in the images are the rendered shells.
"""

import functools
import http.server
import io
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from frn.models.zoo import DEFAULT_MODEL

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples"
WIDE, PHONE, HEIGHT, GAP = 1000, 390, 844, 16
COLOURS = 192
WAIT = 300


def main() -> None:
    """Write the reports and the web page into a temporary folder, and capture their images."""
    browser = _browser()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        words = [SAMPLES / "shells", SAMPLES / "queries", "--model", DEFAULT_MODEL, "--report", place / "photos.html"]
        _frn("classify", *words)
        _picture(browser, (place / "photos.html").as_uri(), "report-photos.png", dark_script=_click("maps"))
        page = place / "page"
        _frn("export", "--web", page, "--classes", SAMPLES / "shells", "--model", DEFAULT_MODEL)
        _page(browser, page)
    browser.quit()


def _page(browser: Any, folder: Path) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
    _wait(browser, "Ready")
    queries = sorted((SAMPLES / "queries").iterdir())[::2]
    browser.find_element("id", "files").send_keys("\n".join(map(str, queries)))
    _wait(browser, "photos classified")
    _picture(browser, None, "page.png", dark_script=_click("maps"))
    server.shutdown()


def _wait(browser: Any, text: str) -> None:
    script = "return document.getElementById('status')?.textContent ?? ''"
    WebDriverWait(browser, WAIT).until(lambda driver: text in driver.execute_script(script))


def _click(element: str) -> str:
    return f"document.getElementById('{element}').click(); window.scrollTo(0, 0)"


def _frn(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "frn", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def _browser() -> Any:
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def _picture(browser: Any, address: str | None, name: str, *, dark_script: str) -> None:
    """Capture a page twice: wide and light on the left; narrow and dark, after a script has run, on the right."""
    canvas = Image.new("RGB", (WIDE + GAP + PHONE, HEIGHT), (128, 128, 128))
    for left, width, dark in ((0, WIDE, False), (WIDE + GAP, PHONE, True)):
        metrics = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": dark}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        if address:
            browser.get(address)
        browser.execute_script(dark_script if dark else "window.scrollTo(0, 0)")
        time.sleep(1)  # wait until lazy images and colours are drawn
        canvas.paste(Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB"), (left, 0))
    canvas.quantize(COLOURS, dither=Image.Dither.NONE).save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
