"""Every kind of file dropped on the app gives an answer or an error, and the engine survives."""

import asyncio
import os
import socket
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import ListFolder, PathContents, ScanPath
from frn_tui.client.protocol import AskClasses, EmbedImages, EngineError, OpenModel, RenderPreview, SetClasses
from PIL import Image

from frn.projects.session import State
from frn.system.processes.messages import convert
from tests.pngs import chunk

Make = Callable[[Path], Path | None]
Message = dict[str, Any]

MAX_MIB = 700  # memory limit of the engine in MiB
TIMEOUT = 60.0  # time limit for a file in seconds, on a busy machine
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"
GOOD, BAD = "an answer", "a reason"


def noise(*shape: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


def png(width: int, height: int, *, bits: int = 1, rows: int | None = None) -> bytes:
    """A grey PNG of zeros; with `rows`, it has fewer rows than its header says."""
    data = zlib.compress(bytes(1 + (width * bits + 7) // 8) * (height if rows is None else rows), 1)
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def written(name: str, data: bytes) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    return make


def image(name: str, mode: str, size: tuple[int, int] = (100, 120), **options: Any) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        picture = Image.fromarray(np.arange(size[0] * size[1], dtype=np.uint16).reshape(size[1], size[0]))
        (picture if mode == "I;16" else noise(size[1], size[0], 3).convert(mode)).save(path, **options)
        return path

    return make


def named(name: bytes) -> Make:
    def make(folder: Path) -> Path | None:
        path = folder / os.fsdecode(name)
        try:
            noise(50, 50, 3).save(path, format="PNG")
        except OSError:
            return None  # some file systems refuse such names
        return path

    return make


def truncated(name: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        noise(64, 64, 3).save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return path

    return make


def linked(name: str, target: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.symlink_to(folder / target)
        return path

    return make


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.png")
    return folder / "pipe.png"


def plug(folder: Path) -> Path:
    path = folder / "s.png"
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(folder)  # socket paths must be short
        try:
            server.bind("s.png")
        finally:
            os.chdir(before)
    return path


def folder_called_image(folder: Path) -> Path:
    (folder / "folder.jpg").mkdir()
    return folder / "folder.jpg"


def unreadable(folder: Path) -> Path | None:
    path = folder / "secret.png"
    noise(50, 50, 3).save(path)
    path.chmod(0)
    return None if os.access(path, os.R_OK) else path  # root can read everything


def vanished(folder: Path) -> Path:
    return folder / "vanished.png"


def animation(folder: Path) -> Path:
    frames = [Image.new("P", (60, 60), shade) for shade in range(200)]
    frames[0].save(folder / "animation.gif", save_all=True, append_images=frames[1:])
    return folder / "animation.gif"


def sparse(folder: Path) -> Path:
    path = folder / "sparse.png"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    return path


def rotated(folder: Path) -> Path:
    exif = Image.Exif()
    exif[0x0112] = 5
    noise(40, 300, 3).save(folder / "rotated.jpg", exif=exif)
    return folder / "rotated.jpg"


def much_exif(folder: Path) -> Path:
    noise(50, 50, 3).save(folder / "exif.jpg", exif=b"Exif\0\0" + b"\xff" * 60_000)
    return folder / "exif.jpg"


def text_bomb(folder: Path) -> Path:
    data = png(8, 8)
    text = b"Comment\0\0" + zlib.compress(bytes(200 << 20), 1)
    path = folder / "text bomb.png"
    path.write_bytes(data[:33] + chunk(b"zTXt", text) + data[33:])
    return path


def webp(folder: Path) -> Path:
    noise(70, 50, 4).save(folder / "alpha.webp")
    return folder / "alpha.webp"


NAMES = [
    b"\x1b[31mred\x1b]0;title\x07.png",
    b"two\nlines\r\n{}.png",
    "\u202egnp.exe\u2066.png".encode(),  # written from right to left
    b"caf\xe9 \xff\xfe.png",
    *(b"[bold red]m[link=x].png", b"--help.png", b"'\"`$(x)\\.png", b"x" * 240 + b".png", b"   .png"),
]
EVIL: dict[str, tuple[Make, str]] = {
    "empty": (written("empty.jpg", b""), BAD),
    "text": (written("text.png", b"I am no image\n" * 99), BAD),
    "HTML called JPEG": (written("page.jpg", b"<html>404</html>"), BAD),
    "zeros": (written("zeros.bmp", bytes(4096)), BAD),
    "PostScript, which would start Ghostscript": (written("eps.jpg", POSTSCRIPT), BAD),
    "SVG": (written("svg.png", b'<svg xmlns="http://www.w3.org/2000/svg"/>'), BAD),
    "only a signature": (written("signature.png", b"\x89PNG\r\n\x1a\n"), BAD),
    **{f"truncated {kind}": (truncated(f"truncated.{kind}"), BAD) for kind in ("jpg", "png", "webp", "gif", "tif")},
    "PNG with too few rows, which are black": (written("rows.png", png(400, 400, rows=3)), GOOD),
    "bomb of 900 megapixels": (written("bomb.png", png(30_000, 30_000, rows=9)), BAD),
    "bomb of 4 gigapixels": (written("giga.png", png(65_535, 65_535, rows=9)), BAD),
    "100 megapixels": (written("large.png", png(10_000, 10_000)), GOOD),
    "30,000 pixels wide": (written("wide.png", png(30_000, 40)), GOOD),
    "65,535 x 1": (written("line.png", png(65_535, 1, bits=8)), GOOD),
    "1 x 65,535": (written("column.png", png(1, 65_535, bits=8)), GOOD),
    "1 x 1": (image("dot.png", "RGB", (1, 1)), GOOD),
    "no pixel": (written("none.png", png(0, 0)), BAD),
    **{f"mode {mode}": (image(f"{mode}.png", mode), GOOD) for mode in ("1", "L", "LA", "P", "RGBA")},
    "mode P with transparency": (image("pt.png", "P", transparency=3), GOOD),
    "mode CMYK": (image("cmyk.jpg", "CMYK"), GOOD),
    # Pillow 12 cannot read its own output here
    "mode YCbCr TIFF": (image("ycbcr.tif", "YCbCr"), GOOD if PIL.__version__ >= "13" else BAD),
    "mode LAB": (image("lab.tif", "LAB"), GOOD),
    "16 bits of grey": (image("deep.png", "I;16"), GOOD),
    "floats": (image("float.tif", "F"), GOOD),
    "transparent WebP": (webp, GOOD),
    "200 frames": (animation, GOOD),
    "PNG called JPEG": (image("wrong.jpg", "RGB", format="PNG"), GOOD),
    "lying on its side": (rotated, GOOD),
    "60 KB of broken EXIF": (much_exif, GOOD),
    "200 MiB of text in a chunk": (text_bomb, BAD),
    "FIFO": (pipe, BAD),
    "socket": (plug, BAD),
    **{f"link to /dev/{name}": (linked(f"{name}.jpg", f"/dev/{name}"), BAD) for name in ("zero", "random", "tty")},
    "link to itself": (linked("loop.png", "loop.png"), BAD),
    "link to nothing": (linked("dangling.png", "nothing"), BAD),
    "link to a folder": (linked("up.png", "."), BAD),
    "10 GiB of nothing": (sparse, BAD),
    "folder called image": (folder_called_image, BAD),
    "unreadable": (unreadable, BAD),
    "vanished": (vanished, BAD),
    **{f"name {name!r:.40}": (named(name), GOOD) for name in NAMES},
}


@pytest.mark.skipif(os.name == "nt", reason="pipes, devices and such names are of POSIX")
def test_every_kind_of_file_has_an_outcome_and_the_engine_survives(
    tmp_path: Path, moths: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))
    folder = tmp_path / "evil"
    folder.mkdir()
    paths = {kind: path for kind, (make, _) in EVIL.items() if (path := make(folder)) is not None}
    assert len(paths) >= 50
    outcomes, found, most = asyncio.run(ask_about(paths, folder, str(next((moths / "test").glob("*/*.png")))))
    wrong = {
        kind: reasons
        for kind, reasons in outcomes.items()
        if any(isinstance(reason, str) != (EVIL[kind][1] == BAD) for reason in reasons)
    }
    assert not wrong
    for reasons in outcomes.values():
        for reason in filter(None, reasons):
            assert len(reason.splitlines()) == 1
            assert "internal error" not in reason
    assert found["kind"] == "folder"
    assert {os.fsdecode(path) for path in map(str, paths.values()) if Path(path).is_file()} <= set(found["files"])
    assert most < MAX_MIB


async def ask_about(
    paths: dict[str, Path], folder: Path, good: str
) -> tuple[dict[str, list[str | None]], PathContents, float]:
    """Return each file's errors in embedding, classifying and showing (or None), the folder, and the memory."""
    client = EngineClient()
    outcomes: dict[str, list[str | None]] = {}
    try:
        await client.start()
        pid = client.pid
        await client.call(OpenModel(model="conv4"))
        await enroll(client, good)
        for kind, path in paths.items():
            began = time.monotonic()
            outcomes[kind] = [
                await reason_of(client, EmbedImages([str(path)]), "embedded", path),
                await reason_of(client, AskClasses([str(path)]), "answer", path),
                await why_no_preview(client, path),
            ]
            assert time.monotonic() - began < TIMEOUT, kind
        events: list[Message] = []
        await client.call(EmbedImages([*map(str, paths.values())]), events.append)
        assert sum(event["event"] == "embedded" for event in events) == len(paths)
        found = await client.call(ScanPath(path=str(folder)))
        await client.call(ListFolder(path=str(folder)))
        assert client.pid == pid
        return outcomes, found, peak(client)
    finally:
        await client.close()


async def enroll(client: EngineClient, path: str) -> None:
    events: list[Message] = []
    await client.call(EmbedImages(paths=[path]), events.append)
    support = next(event for event in events if event["event"] == "embedded")
    state = {"classes": [{"id": 1, "name": "x", "supports": [support]}], "threshold": None, "next_id": 2}
    await client.call(SetClasses(convert(state, State)))


async def reason_of(client: EngineClient, request: EmbedImages | AskClasses, event: str, path: Path) -> str | None:
    events: list[Message] = []
    await client.call(request, events.append)
    (outcome,) = [message for message in events if message["event"] == event]
    assert outcome["path"] == str(path)
    reason = outcome.get("reason")
    return None if reason is None else str(reason)


async def why_no_preview(client: EngineClient, path: Path) -> str | None:
    try:
        await client.call(RenderPreview(path=str(path), columns=20, rows=20))
    except EngineError as error:
        return str(error)
    return None


def peak(client: EngineClient) -> float:
    """Return the engine's peak memory in MiB, or 0 if the system does not report it."""
    try:
        status = Path(f"/proc/{client.pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
