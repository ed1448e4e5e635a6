"""Handmade ICC profiles: a matrix and a gamma for RGB, a gamma for grey, a table for CMYK."""

import struct
from collections.abc import Mapping, Sequence

ADOBE_RGB = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
"""XYZ of red, green and blue, adapted to D50."""
DISPLAY_P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
_XYZ_OF_D50 = (0.9642, 1.0, 0.8249)


def rgb_profile(primaries: Sequence[Sequence[float]], gamma: float) -> bytes:
    """Profile of a display, such as Adobe RGB (1998)."""
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2)
    tags = {f"{c}XYZ": _xyz(values) for c, values in zip("rgb", primaries, strict=True)}
    return _profile("mntr", "RGB ", "XYZ ", tags | {f"{c}TRC": curve for c in "rgb"})


def grey_profile(gamma: float) -> bytes:
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2)
    return _profile("mntr", "GRAY", "XYZ ", {"kTRC": curve})


def cmyk_profile() -> bytes:
    """Inks that mix in Lab: cyan is a light blue, and black halves the lightness."""
    identity = bytes(range(256))
    nodes = bytearray()
    for corner in range(16):
        c, m, y, k = (corner >> bit & 1 for bit in (3, 2, 1, 0))
        lightness = (100 - 20 * c - 30 * m - 5 * y) * (0.3 if k else 1)
        a, b = 70 * m - 30 * c, 80 * y - 40 * c
        nodes += bytes([round(lightness * 2.55), min(255, max(0, 128 + a)), min(255, max(0, 128 + b))])
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    table = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + matrix + identity * 4 + bytes(nodes) + identity * 3
    return _profile("prtr", "CMYK", "Lab ", {"A2B0": table})


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(value * 65536) for value in values))


def _profile(kind: str, space: str, connection: str, tags: Mapping[str, bytes]) -> bytes:
    text = b"by hand\0"
    tags = {
        "desc": b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(78),
        "cprt": b"text" + bytes(4) + text,
        "wtpt": _xyz(_XYZ_OF_D50),
        **tags,
    }
    table, data, start = b"", b"", 128 + 4 + 12 * len(tags)
    for name, value in tags.items():
        table += name.encode() + struct.pack(">II", start + len(data), len(value))
        data += value + bytes(-len(value) % 4)
    header = bytearray(128)
    header[8:12] = b"\x02\x40\0\0"
    header[12:24] = kind.encode() + space.encode() + connection.encode()
    header[36:40] = b"acsp"
    header[68:80] = struct.pack(">3i", *(round(value * 65536) for value in _XYZ_OF_D50))
    whole = bytes(header) + struct.pack(">I", len(tags)) + table + data
    return struct.pack(">I", len(whole)) + whole[4:]
