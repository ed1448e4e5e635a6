"""Console output for all commands: one-line errors, results on stdout, progress on stderr."""

import errno
import io
import json
import os
import re
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from frn.errors import FrnError, FrnWarning
from frn.inference.records import to_json
from frn.system.extras import needs_torch
from frn.system.files import discard_output, require_writable

if TYPE_CHECKING:
    from rich.console import Console

    from frn.data.pixel_cache import Progress

INTERRUPTED = 130  # exit status after Ctrl-C, as in shells
MOST = 5  # number of reasons that `report_skipped` prints
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
NO_ROOM = "annot allocate memory|failed to map segment|can't start new thread"
"""Messages from the library loader, and from Python when it starts a thread, if memory is exhausted."""
EVERY = 10.0  # seconds between progress lines in a pipe
WIDE = 1000  # width of results written to a pipe, so that nothing wraps


@contextmanager
def plain_ending() -> Iterator[None]:
    """End the program without a traceback after Ctrl-C or if stdout cannot be written.

    Characters that stdout cannot encode are escaped. Messages to a closed stderr (`2>&-`) are discarded; writing to a
    closed stdout (`>&-`) is an error.
    """
    interrupted = False
    # Without these, the next opened file would get the number of the closed stream.
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if interrupted:  # an interrupt during an import can turn into any error
            note("interrupted")
            sys.exit(INTERRUPTED)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:  # stdout or stderr failed
            discard_output(sys.stdout.fileno())
            note(f"error: stdout cannot be written ({error.strerror})")
            sys.exit(1)
        if shortage := _shortage(error):
            note(f"error: {shortage}")
            sys.exit(1)
        if isinstance(error, ModuleNotFoundError) and error.name in ("torch", "torchvision"):
            note(f"error: {needs_torch('this command')}")
            sys.exit(1)
        raise


def _shortage(error: BaseException) -> str:
    """Return a message about the exhausted resource (memory, open files), or an empty string for other errors."""
    number = error.errno if isinstance(error, OSError) else 0
    if number in (errno.EMFILE, errno.ENFILE):
        return "too many files are open. Raise the limit (ulimit -n), or process fewer files at once"
    no_room = isinstance(error, ImportError | RuntimeError) and re.search(NO_ROOM, str(error))
    if no_room or isinstance(error, MemoryError) or number == errno.ENOMEM:
        return "there is not enough memory. Free some memory, or raise the limit (ulimit -v, or the container's limit)"
    return ""


@contextmanager
def user_errors() -> Iterator[None]:
    """Show each `FrnError` and `frn` warning as one line; errors exit with status 1. Bugs keep their traceback."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", FrnWarning)
            warnings.filterwarnings("ignore", module="PIL|pillow_heif")  # the photos themselves are readable
            show = warnings.showwarning

            def tell(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
                if issubclass(category, FrnWarning):
                    note(f"warning: {message}")
                else:
                    show(message, category, *where, **more)

            warnings.showwarning = tell
            yield
    except FrnError as error:
        fail(str(error))
    except KeyboardInterrupt:
        note("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe (`frn ... | head`), so nobody would see a message
        discard_output(sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:  # the path may be too long or forbidden
        if error.filename is None or _shortage(error):
            raise
        fail(f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror})")


def fail(message: str) -> None:
    """Print one `error: ...` line on stderr and exit with status 1."""
    note(f"error: {message}")
    raise typer.Exit(1)


def command_line() -> str:
    """Return the running command as a user would type it."""
    return shlex.join(["frn", *sys.argv[1:]])


def end_stopped_run(steps: int) -> NoReturn:
    """Print how to resume a stopped run, and exit with the same status as after Ctrl-C."""
    command = shlex.join(["frn", *(word for word in sys.argv[1:] if word != "--resume"), "--resume"])
    note(f"saved after {steps} steps. Continue with: {command}")
    raise typer.Exit(INTERRUPTED)


def suggest(*words: str) -> None:
    """Print the command that usually comes next."""
    stdout().print(printable(f"next: {shlex.join(words)}"), soft_wrap=True)


def note(message: str) -> None:
    """Print a line on stderr."""
    print(printable(message), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Escape all characters that could control a terminal; file names can contain any character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def print_json(value: object) -> None:
    """Print one JSON value as one line on stdout; JSON escapes replace characters that could control a terminal."""
    text = to_json(value, ascii_only=not (sys.stdout.encoding or "").lower().startswith("utf"))
    if not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    print(text, flush=True)


def check_report(path: Path | None, *, replace: bool) -> None:
    """Before the work starts, refuse a report path that a browser could not open or that must not be overwritten."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm"):
        raise FrnError(f"{path}: a report is an HTML page. Its name must end in .html.")
    require_writable(path, replace=replace)


def stdout() -> "Console":
    """Return a console for results, with markup and emoji off by default, because names may contain either."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)


def strong(name: object) -> str:
    """Return a name in bold for rich markup, with any markup in it escaped."""
    from rich.markup import escape

    return f"[bold]{escape(printable(str(name)))}[/bold]"


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under column headings, with the first column in bold. Cells are never parsed as markup."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, style=None if number else "bold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(printable, row))
    stdout().print(table)


@contextmanager
def progress_bar(what: str, *, shown: bool = True) -> Iterator["Progress"]:
    """Provide a progress callback: a bar on a terminal, otherwise a line every ten seconds; nothing unless `shown`."""
    with live_text(what, is_bar=True, shown=shown) as show:
        yield lambda done, total: show(f"{what}: {done:,} of {total:,}", completed=done, total=total)


@contextmanager
def live_text(text: str, *, is_bar: bool = False, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show a text with a spinner or a bar during an operation, or print it every ten seconds in a pipe.

    Yields a function that takes a new text, and for a bar `completed` and `total`.
    """
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Live

    def show(new: str, **progress: float) -> None:
        nonlocal text
        text = new
        live.update(task, description=printable(new), **progress)  # type: ignore[arg-type]

    console = Console(stderr=True, emoji=False)
    columns = (BarColumn(), TimeRemainingColumn()) if is_bar else ()
    live = Live(
        *(TextColumn("{task.description}", markup=False), *(columns or (SpinnerColumn(),))),
        console=console,
        transient=True,
        redirect_stdout=False,
        disable=not (shown and console.is_terminal),
    )
    task = live.add_task(printable(text), total=None)
    with live, _lines(lambda: text) if shown and not console.is_terminal else nullcontext():
        yield show


@contextmanager
def _lines(text: Callable[[], str]) -> Iterator[None]:
    """Print the progress on stderr every `EVERY` seconds."""
    start, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        with suppress(OSError, ValueError):  # stderr has been closed
            while not ended.wait(EVERY):
                note(f"{text()} ({time.monotonic() - start:.0f} s)")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def report_skipped(reasons: Sequence[object], *, all_of_them: str = "`frn data check` lists them all") -> None:
    """Report which files could not be used, and why."""
    for reason in reasons[:MOST]:
        note(f"warning: {reason}")
    if len(reasons) > MOST:
        note(f"warning: ... and {len(reasons) - MOST} more" + (f"; {all_of_them}" if all_of_them else ""))
