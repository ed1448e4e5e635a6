"""Processing of untrusted bytes in a child process with limited time and memory.

Decoders and runtimes are C code, which Python's exceptions and timers cannot stop, but a process can be killed. A child
answers many requests, because starting one takes a quarter of a second; it ends with the process that started it.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

from frn.errors import FrnError, shorten
from frn.system.processes.forks import after_fork
from frn.system.processes.messages import Message, read, write

Reply = tuple[Message, Sequence[bytes]]
Handler = Callable[[Message, list[bytes]], Reply]
"""Function that runs in the child: from a request and its bytes to an answer and its bytes."""

_GRACE = 2.0  # extra seconds after which a child exits if its parent has not stopped it
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from frn.system.processes.sandbox import serve
serve(sys.argv[2], int(sys.argv[3]))
"""


class WorkerKilledError(Exception):
    """Raised if a child was killed or exited: "took longer than 10 s", "took more than 512 MiB of memory"."""


class SandboxedWorker:
    """A child process that answers one request at a time."""

    def __init__(self, target: str, memory: int) -> None:
        """Prepare a child that runs `target` ("module:function", a `Handler`) within `memory` bytes."""
        self.target, self.memory = target, memory
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        after_fork(self, SandboxedWorker._forget)

    def _forget(self) -> None:
        """Leave the child to the parent process after a fork, and the lock to whichever of its threads holds it."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._finalizer.detach()
            _hang_up(self._process)
            self._process = None

    @property
    def lives(self) -> bool:
        """Return whether a child of this process is running; False after a fork and before the first request."""
        return self._process is not None and self._process.poll() is None

    def ask(self, question: Message, blobs: Sequence[bytes], seconds: float) -> tuple[Message, list[bytes]]:
        """Send a request and wait at most `seconds` for the answer.

        Raises FrnError if the target raises one, and WorkerKilledError if the child exceeded its limits or exited.
        """
        with self._lock:
            process = self._start()
            assert process.stdin is not None
            with self._limited(process, seconds):
                write(process.stdin, {**question, "seconds": seconds}, blobs)
                answer, arrays = _answer(process)
        if "refused" in answer:
            raise FrnError(str(answer["refused"]))
        if "stopped" in answer:
            raise WorkerKilledError(str(answer["stopped"]))
        return answer, arrays

    @contextlib.contextmanager
    def _limited(self, process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
        """Kill the child if the block takes too long, and stop it if the block fails."""
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except BaseException as error:  # after an interrupt, a late answer would be taken for that to the next request
            self.close()
            if not isinstance(error, OSError | EOFError | ValueError):
                raise
            reason = f"took longer than {seconds:g} s" if late.is_set() else "exited without an answer"
            raise WorkerKilledError(reason) from error
        finally:
            timer.cancel()

    def _await_start(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the child has imported its modules, so that this does not count against a request's time."""
        with self._limited(process, 60.0):  # seconds for a child to import what it needs; torch takes a few
            _answer(process)

    def close(self) -> None:
        """Stop the child; the next request starts another."""
        if self._process is not None:
            self._finalizer()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        if self.lives:
            assert self._process is not None
            return self._process
        self.close()
        command = [sys.executable, "-I", "-c", _START, json.dumps(sys.path), self.target, str(self.memory)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # the parent handles Ctrl-C
            )
        except OSError as error:
            raise WorkerKilledError(f"cannot be started ({error.strerror})") from error
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._await_start(self._process)
        return self._process


def _answer(process: subprocess.Popen[bytes]) -> tuple[Message, list[bytes]]:
    assert process.stdout is not None
    return read(process.stdout)


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """Let a fork's copies of the pipes lead nowhere: to close them would write what a thread has left in them."""
    process.returncode = 0
    nothing = os.open(os.devnull, os.O_RDWR)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        os.dup2(nothing, pipe.fileno())
    os.close(nothing)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def serve(target: str, memory: int) -> None:
    """Answer requests until there are no more; this is the main function of a child."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):  # output of libraries must not mix with answers
        os.dup2(nothing, descriptor)
    module, _, name = target.partition(":")
    handler: Handler = getattr(importlib.import_module(module), name)
    _limit_memory(memory)
    write(answers, {"ready": target}, ())
    while True:
        try:
            question, blobs = read(questions)
        except EOFError:
            return
        with _alarm(question["seconds"] + _GRACE):
            try:
                answer, arrays = handler(question, blobs)
            except FrnError as error:
                answer, arrays = {"refused": str(error)}, ()
            except MemoryError:
                answer, arrays = {"stopped": f"took more than {memory >> 20} MiB of memory"}, ()
            except Exception as error:
                answer, arrays = {"stopped": f"failed ({shorten(error)})"}, ()
            write(answers, answer, arrays)


def _limit_memory(most: int) -> None:
    """Limit this process's own memory, except mapped files and reserved addresses, if the system can."""
    try:
        import resource
    except ImportError:
        return
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, most))
    with contextlib.suppress(OSError, ValueError):  # no core dump, which would contain someone's photo
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Let the system kill this process after this many seconds, regardless of its state."""
    if sys.platform == "win32":
        yield
        return
    import signal

    signal.setitimer(signal.ITIMER_REAL, seconds)  # no handler, so it kills the process
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
