"""The real program with its engine in a real terminal: typing, pasting, being killed, and files left behind."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.drawings import MOTHS, QUERIES
from tests.processes import lives

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

TIMEOUT = 40.0
START = [sys.executable, "-c", "from frn_tui.main import run; run()"]
CRASHING = """
from frn_tui import app, main
def crash(self):
    raise RuntimeError("made to crash")
app.FrnApp.action_leave = crash
main.run()
"""


class Terminal:
    """A shell in a separate tmux server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.status = folder / "status"
        self.state = folder / "state"
        self._socket = folder / "tmux"
        environment = {**os.environ, "FRN_STATE": str(self.state), "FRN_CACHE": str(folder / "cache"), "PS1": "$ "}
        for name in (
            "NO_COLOR",
            "TMUX",
            "BASH_ENV",
            "ENV",
            "COLUMNS",
            "LINES",
        ):  # xdist sets a size that the app would use
            environment.pop(name, None)
        command = ["new-session", "-d", "-x", "100", "-y", "30", "sh"]
        subprocess.run(
            ["tmux", "-S", str(self._socket), "-f", os.devnull, *command], check=True, env=environment, timeout=10
        )

    def tmux(self, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            capture_output=True,
            text=True,
            input=text,
            timeout=10,
            check=False,
        )
        return done.stdout

    def close(self) -> None:
        self.tmux("kill-server")

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        self.tmux("load-buffer", "-", text=text)
        self.tmux("paste-buffer", "-p")

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def settle(self, columns: int, rows: int, *words: str) -> None:
        """Set the final size; after many changes in a row, tmux may hold back the last one until the next."""

        def nudged() -> bool:
            for width in (columns - 1, columns):
                self.tmux("resize-window", "-x", str(width), "-y", str(rows))
                time.sleep(0.5)
            return all(word in self.screen for word in words)

        self.until(nudged)

    def is_wiped(self) -> bool:
        """Clear the screen without the app's knowledge, and return whether it stayed empty; the app may be painting."""
        Path(self.flag("pane_tty")).write_text("\x1b[2J")
        time.sleep(0.3)
        return not self.screen.strip()

    def flag(self, name: str) -> str:
        return self.tmux("display-message", "-p", "#{" + name + "}").strip()

    def until(self, reached: Callable[[], object], seconds: float = TIMEOUT) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if reached():
                return
            time.sleep(0.05)
        pytest.fail(f"it did not happen in time; the screen is\n{self.screen}")

    def shows(self, *words: str, seconds: float = TIMEOUT) -> None:
        self.until(lambda: all(word in self.screen for word in words), seconds)

    def start(self, *arguments: str, command: list[str] = START, before: str = "") -> int:
        """Start the app and return its process."""
        self.status.unlink(missing_ok=True)
        place = self.folder / "pid"
        place.unlink(missing_ok=True)
        line = f"{before} sh -c 'echo $$ > {place}; exec \"$@\"' - {shlex.join([*command, *arguments])}"
        script = self.folder / "start"
        script.write_text(f"{line}\necho $? > {self.status}\n")
        self.keys(f". {script}", "Enter")
        self.until(lambda: place.exists() and place.read_text().strip())
        return int(place.read_text())

    def ended(self) -> int:
        """Wait until the app ends and return its exit status."""
        self.until(lambda: self.status.exists() and self.status.read_text().strip())
        return int(self.status.read_text())

    def is_restored(self) -> bool:
        """Return whether the terminal is restored: main screen, cursor, echo, no mouse, no bracketed paste."""
        terminal = self.flag("pane_tty")
        settings = subprocess.run(["stty", "-a", "-F", terminal], capture_output=True, text=True, check=True).stdout
        flags = [self.flag(name) for name in ("alternate_on", "cursor_flag", "mouse_any_flag")]
        return flags == ["0", "1", "0"] and " echo " in settings and " icanon " in settings


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of three photos."""
    folder = tmp_path_factory.mktemp("photos") / "my moths"
    for home in sorted(MOTHS.iterdir())[:2]:
        (folder / home.name).mkdir(parents=True)
        for path in sorted(home.iterdir())[:3]:
            shutil.copy(path, folder / home.name)
    return folder


def children(process: int) -> list[int]:
    """Return the child processes of a process."""
    found = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


def kept(terminal: Terminal) -> str:
    """Return the content of the journals."""
    return "".join(path.read_text() for path in terminal.state.glob("journal-*.json"))


def begin_a_class(terminal: Terminal) -> None:
    """Make an edit; opened content is already on disk and is not journalled."""
    terminal.keys("A")
    terminal.shows("New class")
    terminal.keys("owl", "Enter")
    terminal.shows("3 classes · 6 photos")


def test_a_cleared_terminal_is_repainted(terminal: Terminal, photos: Path) -> None:
    """The pane was small so briefly that the app saw only one size."""
    app = terminal.start(str(photos))
    terminal.shows("frn-tui", "2 classes · 6 photos", "Classes")
    terminal.until(terminal.is_wiped)
    os.kill(app, signal.SIGWINCH)
    terminal.shows("frn-tui", "2 classes · 6 photos", "Classes")


def test_a_session_classifies_corrects_saves_and_quits(terminal: Terminal, photos: Path, tmp_path: Path) -> None:
    app = terminal.start(str(photos))
    terminal.shows("2 classes · 6 photos")
    (engine,) = children(app)
    terminal.keys("p")
    terminal.shows("Classify photos or a folder")
    terminal.paste(str(QUERIES / "banded footman 6.jpg"))
    terminal.shows("/drawn/queries/")
    terminal.keys("Enter")
    terminal.shows("Query · banded footman 6.jpg", "unknown below")
    terminal.keys("1")
    terminal.shows("7 photos")
    for width in (20, 200, 41, 79, 130, 90):  # while other work is in progress
        terminal.tmux("resize-window", "-x", str(width), "-y", str(width // 4))
    terminal.settle(100, 30, "7 photos", "1 banded")
    terminal.keys("C-s")
    terminal.shows("Save the project as")
    terminal.shows("my moths.frn.json")
    terminal.keys("C-u")
    terminal.until(lambda: "my moths.frn.json" not in terminal.screen)
    terminal.paste(str(tmp_path / "moths.frn.json"))
    terminal.shows("moths.frn.json")
    terminal.keys("Enter")
    terminal.until((tmp_path / "moths.frn.json").exists)
    terminal.shows("saved")
    terminal.keys("C-q")
    assert terminal.ended() == 0
    terminal.until(terminal.is_restored)
    assert not lives(engine)
    document = json.loads((tmp_path / "moths.frn.json").read_text())
    assert len(json.dumps(document).split("footman 6.jpg")) == 2
    assert kept(terminal) == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_app_cleanly_and_keeps_the_work(
    number: signal.Signals, terminal: Terminal, photos: Path
) -> None:
    app = terminal.start(str(photos))
    terminal.shows("2 classes · 6 photos")
    (engine,) = children(app)
    begin_a_class(terminal)
    os.kill(app, number)
    assert terminal.ended() == 128 + number
    terminal.until(terminal.is_restored)
    terminal.until(lambda: not lives(engine), seconds=5)
    assert "banded footman" in kept(terminal)


def test_a_closed_terminal_leaves_no_process_and_keeps_the_work(terminal: Terminal, photos: Path) -> None:
    app = terminal.start(str(photos))
    terminal.shows("2 classes · 6 photos")
    both = [app, *children(app)]
    begin_a_class(terminal)
    terminal.close()
    terminal.until(lambda: not any(lives(process) for process in both), seconds=10)
    assert "banded footman" in kept(terminal)


def test_a_crash_restores_the_terminal_and_exits_with_a_failure(terminal: Terminal, photos: Path) -> None:
    app = terminal.start(str(photos), command=[sys.executable, "-c", CRASHING], before="NO_COLOR=1")
    terminal.shows("2 classes · 6 photos")
    (engine,) = children(app)
    painted = terminal.tmux("capture-pane", "-p", "-e")
    assert "\x1b[38;2;254" not in painted  # no orange, because of NO_COLOR
    terminal.keys("C-q")
    assert terminal.ended() == 1
    terminal.until(terminal.is_restored)
    assert "made to crash" in terminal.screen
    terminal.until(lambda: not lives(engine), seconds=5)


def test_terminal_without_cursor_movement_is_refused(terminal: Terminal) -> None:
    terminal.start(str(terminal.folder), before="TERM=dumb")
    assert terminal.ended() == 1
    terminal.shows("frn-tui needs a terminal that can move its cursor")
    assert "Traceback" not in terminal.screen


def test_two_thousand_keys_in_one_write_reach_the_dialogs_that_they_open(terminal: Terminal) -> None:
    """As with an unbracketed paste or slow ssh: each name opens a dialog, is typed and closes it."""
    terminal.start("--model", "conv4")
    terminal.shows("known, unknown")
    names = [f"class {number:02d} {'y' * 160}" for number in range(12)]
    text = "".join(f"A{name}\n" for name in names)
    assert len(text) >= 2000
    terminal.tmux("load-buffer", "-", text=text)
    terminal.tmux("paste-buffer")  # without -p tmux pastes without brackets
    terminal.shows("12 classes", seconds=3 * TIMEOUT)
    terminal.keys("C-s")
    terminal.shows("Save the project as")
    terminal.keys("C-u")
    terminal.keys("-l", str(terminal.folder / "typed"))
    terminal.keys("Enter")
    project = terminal.folder / "typed.frn.json"
    terminal.until(project.exists)
    assert [entry["name"] for entry in json.loads(project.read_text())["classes"]] == names
