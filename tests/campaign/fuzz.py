"""`python -m tests.campaign.fuzz DOOR SECONDS KEEP`: fuzz a file reader, guided by coverage (atheris).

The run starts from the stored corpus (tests/campaign/corpus/DOOR). Files that reach new lines are written to KEEP;
files that cause a crash go to the working directory, as usual for libFuzzer.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.campaign.campaign import require_line

CORPUS = Path(__file__).parent / "corpus"
LONGEST = 1 << 14
"""Size limit of a tested file, in bytes."""


def image(data: bytes) -> None:
    """Decode a photo in this process, so that the fuzzer sees coverage of Pillow."""
    import contextlib

    from frn.images.decoding import DecodeRequest, decode_in_process
    from frn.images.transforms import EvaluationTransform

    wish = DecodeRequest(transform=EvaluationTransform(size=32), stored=len(data) % 2 == 0)
    decode_in_process(data, "x", wish, contextlib.nullcontext())


def project(data: bytes) -> None:
    """Read a project and save it again."""
    from frn.projects.project import load_project, save_project

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.frn.json"
        path.write_bytes(data)
        save_project(path, load_project(path))


def onnx(data: bytes) -> None:
    """Check an untrusted ONNX model before a session is created."""
    from frn.features.onnx_runtime import check_model

    check_model(data, "x")


DOORS: dict[str, Callable[[bytes], None]] = {"image": image, "project": project, "onnx": onnx}


def tried(door: str, data: bytes) -> bool:
    """Return whether a file is accepted; False for a refusal with a one-line error. Any other exception is a crash."""
    from frn.errors import FrnError

    try:
        DOORS[door](data)
    except FrnError as error:
        require_line(error)
        return False
    return True


def main() -> None:
    """Fuzz for this many seconds."""
    import atheris

    door, seconds, keep = sys.argv[1:]
    with atheris.instrument_imports(include=["frn", "PIL"]):
        tried(door, b"")
    limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], keep, str(CORPUS / door), *limits], lambda data: tried(door, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
