"""Colours of a PNG as an ICC profile, in the order of PNG 3 (section 4.3): cICP, iCCP, sRGB, then gAMA with cHRM.

Where the specification leaves a choice, this follows Chromium, so that a web page shows the same colours: cHRM counts
only beside gAMA, gAMA alone is sRGB if it is within 5% of 1 / 2.2, and the camera curves of cICP have gamma 2.4.
"""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Curve = tuple[float, float, float, float, float]  # g, a, b, c and d of ICC: (a x + b)^g from d on, and c x below
SRGB_CURVE: Curve = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
D65 = (0.3127, 0.3290)
PRIMARIES = {
    1: (*D65, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06),
    5: (*D65, 0.64, 0.33, 0.29, 0.60, 0.15, 0.06),
    6: (*D65, 0.63, 0.34, 0.31, 0.595, 0.155, 0.07),
    9: (*D65, 0.708, 0.292, 0.17, 0.797, 0.131, 0.046),
    11: (0.314, 0.351, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06),
    12: (*D65, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06),
}
"""x and y of white, red, green and blue by their number in cICP (ITU-T H.273, table 2): 1 is sRGB, 12 is Display P3."""
GAMMAS = {1: 2.4, 4: 2.2, 5: 2.8, 6: 2.4, 8: 1.0, 14: 2.4, 15: 2.4}
"""Gamma by the number of a curve in cICP (table 3); 13 is sRGB's curve."""
HDR = {16: "PQ", 18: "HLG"}  # curves of cICP that are not converted: how bright their white is depends on the display
D50 = (0.9642, 1.0, 0.8249)
BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])


def coding_points(data: bytes) -> bytes | None:
    """Return the four bytes of a PNG's cICP chunk, which Pillow does not read."""
    at = 8
    while (kind := data[at + 4 : at + 8]) not in (b"IDAT", b""):
        if kind == b"cICP":
            return data[at + 8 : at + 12]
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return None


def profile_of(image: Image.Image, mode: str) -> object:
    """Return the ICC profile of an image whose colours are of mode `L`, `RGB` or `CMYK`, or of its PNG chunks."""
    points, curve, _, _ = image.info.get("cicp") or bytes(4)
    if points in PRIMARIES and (curve == 13 or curve in GAMMAS) and image.info["cicp"][2:] == b"\0\1":
        return _profile(_power(GAMMAS[curve]) if curve in GAMMAS else SRGB_CURVE, PRIMARIES[points], mode)
    profile, gamma = image.info.get("icc_profile"), image.info.get("gamma")
    if (isinstance(profile, bytes) and profile[36:40] == b"acsp") or "srgb" in image.info or not gamma:
        return profile
    chromaticity = image.info.get("chromaticity")
    if chromaticity is None and abs(2.2 * gamma - 1) < 0.05:
        return None
    return _profile(_power(1 / gamma), chromaticity or PRIMARIES[1], mode)


def _power(gamma: float) -> Curve:
    return gamma, 1.0, 0.0, 0.0, 0.0


def _profile(curve: Curve, chromaticity: Sequence[float], mode: str) -> bytes | None:
    """Return a display profile; None if it cannot be written, because the chunks are damaged."""
    try:
        shape = b"para" + bytes(4) + struct.pack(">HH5i", 3, 0, *(round(value * 65536) for value in curve))
        columns = zip(b"rgb", _matrix(np.array(chromaticity).reshape(4, 2)).T, strict=True)
        tags = {bytes([name]) + b"XYZ": _xyz(column.tolist()) for name, column in columns}
        tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), shape)
        if mode != "RGB":
            tags = {b"kTRC": shape}
        illuminant = _xyz(D50)[8:]
    except (ArithmeticError, ValueError, struct.error):  # a singular matrix is a ValueError
        return None
    space = b"RGB " if mode == "RGB" else b"GRAY"
    header = b"\x04\x20\0\0mntr" + space + b"XYZ " + bytes(12) + b"acsp" + bytes(28) + illuminant + bytes(48)
    table, data, start = b"", b"", 132 + 12 * len(tags)
    for tag, value in tags.items():
        table += tag + struct.pack(">II", start + len(data), len(value))
        data += value
    body = bytes(4) + header + struct.pack(">I", len(tags)) + table + data
    return struct.pack(">I", len(body) + 4) + body


def _matrix(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return XYZ of red, green and blue as columns, adapted to D50, from (4, 2) chromaticities, white first."""
    white, *primaries = np.column_stack([points, 1 - points.sum(1)])
    white = white / white[1]
    matrix = np.array(primaries).T
    matrix = matrix * np.linalg.solve(matrix, white)
    return np.linalg.solve(BRADFORD, (BRADFORD @ D50 / (BRADFORD @ white))[:, None] * (BRADFORD @ matrix))


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(value * 65536) for value in values))
