"""PNGs of any bit depth and with any colour chunks, which Pillow cannot write."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.profiles import SRGB, cmyk_profile, rgb_profile

GREY, COLOUR = 0, 2  # PNG colour types
Chunks = Sequence[tuple[bytes, bytes]]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    path: Path, rows: NDArray[np.uint16], bits: int, key: tuple[int, ...] | None = None, chunks: Chunks = ()
) -> Path:
    """Write a PNG of pixels (h, w) or (h, w, 3)."""

    flat = rows.reshape(len(rows), -1)
    if bits == 16:
        lines = [row.astype(">u2").tobytes() for row in flat]
    elif bits == 8:
        lines = [row.astype(np.uint8).tobytes() for row in flat]
    else:
        unpacked = [[value >> bit & 1 for value in row for bit in reversed(range(bits))] for row in flat.tolist()]
        lines = [np.packbits(np.array(row, dtype=np.uint8)).tobytes() for row in unpacked]
    header = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], bits, COLOUR if rows.ndim == 3 else GREY, 0, 0, 0)
    transparent = b"" if key is None else chunk(b"tRNS", struct.pack(f">{len(key)}H", *key))
    colours = b"".join(chunk(*each) for each in chunks)
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines)))
    parts = (b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), colours, transparent, pixels, chunk(b"IEND", b""))
    path.write_bytes(b"".join(parts))
    return path


def gama(gamma: float) -> tuple[bytes, bytes]:
    return b"gAMA", struct.pack(">I", round(gamma * 100_000))


def chrm(*points: float) -> tuple[bytes, bytes]:
    return b"cHRM", struct.pack(">8I", *(round(value * 100_000) for value in points))


def iccp(profile: bytes) -> tuple[bytes, bytes]:
    return b"iCCP", b"x\0\0" + zlib.compress(profile)


def cicp(*points: int) -> tuple[bytes, bytes]:
    return b"cICP", bytes(points)


OF_SRGB = chrm(0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06)
OF_P3 = chrm(0.3127, 0.329, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06)
SWATCHES = np.array([[[20, 20, 20], [128, 128, 128], [200, 30, 30], [40, 50, 220]]], dtype=np.uint16)
_PLAIN = ((20, 20, 20), (128, 128, 128), (200, 30, 30), (40, 50, 220))
_LINEAR = ((79, 79, 79), (188, 188, 188), (229, 96, 96), (110, 122, 239))
_POWER = ((12, 12, 12), (129, 129, 129), (201, 24, 24), (35, 46, 221))
COLOUR_CHUNKS: dict[str, tuple[Chunks, Sequence[tuple[int, ...]]]] = {
    "linear": ([gama(1)], _LINEAR),
    "gamma alone is about that of sRGB": ([gama(0.45455)], _PLAIN),
    "gamma alone": ([gama(0.55556)], ((26, 26, 26), (146, 146, 146), (210, 40, 40), (53, 65, 227))),
    "gamma and primaries": ([gama(0.45455), OF_SRGB], _POWER),
    "linear P3": ([gama(1), OF_P3], ((79, 79, 79), (188, 188, 188), (247, 84, 91), (107, 123, 247))),
    "primaries alone": ([OF_P3], _PLAIN),
    "sRGB comes before gamma": ([(b"sRGB", b"\0"), gama(1), OF_P3], _PLAIN),
    "ICC comes before gamma": ([iccp(rgb_profile(SRGB, 1.0)), gama(0.55556)], _LINEAR),
    "damaged ICC": ([iccp(b"junk"), gama(1)], _LINEAR),
    "ICC for other colours": ([iccp(cmyk_profile()), gama(1)], _PLAIN),
    "zero gamma": ([gama(0)], _PLAIN),
    "equal primaries": ([gama(0.45455), chrm(*[0.3] * 8)], _PLAIN),
    "cICP of P3": ([cicp(12, 13, 0, 1)], ((20, 20, 20), (128, 128, 128), (218, 0, 6), (37, 50, 229))),
    "cICP comes before sRGB": ([cicp(1, 8, 0, 1), (b"sRGB", b"\0")], _LINEAR),
    "cICP of BT.2020": ([cicp(9, 14, 0, 1)], ((7, 7, 7), (121, 121, 121), (246, 0, 0), (0, 33, 229))),
    "cICP of a limited range": ([cicp(12, 13, 0, 0)], _PLAIN),
    "unknown cICP": ([cicp(200, 200, 0, 1), gama(1)], _LINEAR),
}
"""Colour chunks, and how Chromium 156 shows `SWATCHES` with them."""
