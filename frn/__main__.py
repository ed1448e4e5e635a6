"""Entry point of the `frn` command and of `python -m frn`."""

import signal


def run() -> None:
    """Load the command line and run it (the console script)."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the program while only modules are loading
    from frn.cli.main import run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    run()
