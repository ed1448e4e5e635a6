"""`frn-tui`: parse the command line with light imports only, then start the app."""

import argparse
import gc
import os
import signal
import stat
import sys

from frn._version import __version__
from frn.errors import FrnError
from frn_tui.terminal.modes import MODES, PIXELS

OPENED = (".frn.json", ".zip", ".csv", ".tsv")  # suffixes of files that can be opened


def build_parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    parser = argparse.ArgumentParser(
        prog="frn-tui",
        description="Build classes from a few photos each, classify other photos, and review and correct the answers.",
        epilog="Without arguments, it opens the sample photos.",
    )
    parser.add_argument("place", nargs="?", help="class folders (folder, zip or CSV), a project or a bundle")
    parser.add_argument("--model", help="shipped name or features.onnx (default: from settings or project)")
    parser.add_argument("--images", choices=("auto", *PIXELS, *MODES), default="auto", help="how to draw photos")
    parser.add_argument(
        "--tta", choices=("none", "hflip", "views", "auto"), help="hflip: mirror (2x time); views: crops (4x); auto"
    )
    parser.add_argument("--web", action="store_true", help="serve the app to browsers on this machine")
    parser.add_argument("--port", type=int, help="port of --web (default: 8000; 0: any free port)")
    parser.add_argument("--version", action="version", version=f"frn {__version__}")
    return parser


def run() -> None:
    """Run the app (the console script)."""
    parser = build_parser()
    chosen = parser.parse_args()
    if chosen.port is not None and not chosen.web:
        parser.error("--port needs --web")
    if chosen.place is not None and (reason := _refused(chosen.place)):
        parser.exit(2, f"error: {reason}\n")
    try:
        if chosen.model:
            from frn.models.zoo import require_exported

            require_exported(chosen.model)
        if chosen.web:
            _serve(chosen)
            return
    except FrnError as error:
        sys.exit(f"error: {error}")
    served = "TEXTUAL_DRIVER" in os.environ  # in a browser, the page is the terminal
    if not served and (os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()):
        sys.exit("frn-tui needs a terminal that can move its cursor. Without one, use `frn classify`.")
    encoding = sys.stdout.encoding or ""
    if encoding.lower().replace("-", "") != "utf8":
        sys.exit(f"error: the terminal's encoding is {encoding}, but frn-tui draws in UTF-8. Set LANG=C.UTF-8.")
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # 7 ms that asyncio can do without; nothing is sent
    gc.disable()  # nothing to collect before the first paint, and collecting costs a tenth of the time
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the program while only modules are loading
    from frn_tui.app import FrnApp

    signal.signal(signal.SIGINT, before)
    app = FrnApp(chosen.place, model=chosen.model, images=chosen.images, tta=chosen.tta or "")
    app.run()
    status = app.return_code or 0
    if status == 128 + getattr(signal, "SIGHUP", -128):
        os._exit(status)  # the terminal is gone, and so is what would be written to it at exit
    sys.exit(status)


def _refused(place: str) -> str:
    """Return why a place cannot be opened, judging by its name and kind; empty if it may be opened."""
    path = os.path.expanduser(place)  # noqa: PTH111
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except (OSError, ValueError) as error:
        return f"{place}: {getattr(error, 'strerror', None) or error}"
    if is_folder or path.lower().endswith(OPENED):
        return ""
    return f"{place}: is not a folder of class folders, a project (*.frn.json), a zip or a CSV"


def _serve(chosen: argparse.Namespace) -> None:
    from frn_tui.web import serve

    options = ["--images", chosen.images]
    options += ["--model", chosen.model] if chosen.model else []
    options += ["--tta", chosen.tta] if chosen.tta else []
    options += ["--", chosen.place] if chosen.place else []
    serve.serve(options, serve.PORT if chosen.port is None else chosen.port)


if __name__ == "__main__":
    run()
