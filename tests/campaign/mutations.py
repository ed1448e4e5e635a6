"""Damage valid files as disks, networks, old programs and attackers do."""

import copy
import json
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np

Generator = np.random.Generator

NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 24, 100_000)
"""Numbers that make counts and sizes overflow."""
WORDS = (b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b'""', b"true", b"[[[[", b"9" * 30, b"../", b"\0")


def flip_bits(data: bytearray, generator: Generator) -> None:
    for place in generator.integers(0, len(data), int(generator.integers(1, 9))):
        data[place] ^= 1 << int(generator.integers(8))


def set_bytes(data: bytearray, generator: Generator) -> None:
    for place in generator.integers(0, len(data), int(generator.integers(1, 9))):
        data[place] = int(generator.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, int(generator.integers(256))]))


def set_number(data: bytearray, generator: Generator) -> None:
    """Write a count or size that is too large, negative or zero, in either byte order; mostly in the header."""
    width = int(generator.choice([1, 2, 4, 8]))
    value = int(generator.choice(NUMBERS)) & ((1 << 8 * width) - 1)
    reach = len(data) if generator.random() < 0.5 else min(len(data), 200)
    place = int(generator.integers(0, max(1, reach - width)))
    data[place : place + width] = value.to_bytes(width, "little" if generator.random() < 0.5 else "big")


def cut(data: bytearray, generator: Generator) -> None:
    del data[int(generator.integers(0, len(data))) :]


def remove(data: bytearray, generator: Generator) -> None:
    start = int(generator.integers(0, len(data)))
    del data[start : start + int(generator.integers(1, 65))]


def repeat(data: bytearray, generator: Generator) -> None:
    start, length = int(generator.integers(0, len(data))), int(generator.integers(1, 257))
    data[start:start] = data[start : start + length] * int(generator.integers(1, 20))


def insert(data: bytearray, generator: Generator) -> None:
    start = int(generator.integers(0, len(data)))
    data[start:start] = generator.integers(0, 256, int(generator.integers(1, 65)), dtype=np.uint8).tobytes()


def insert_word(data: bytearray, generator: Generator) -> None:
    """Text that can be parsed but is unexpected."""
    start = int(generator.integers(0, len(data)))
    data[start : start + int(generator.integers(0, 12))] = WORDS[int(generator.integers(len(WORDS)))]


VALUES: tuple[object, ...] = (
    *(None, True, 0, -1, 1.5, 2**63, 10**400, float("nan"), float("inf")),
    *("", "x" * 999, "\0", "../../x", "\ud800", "\x1b[31m"),
    *([], {}, [[]], [None], {"path": 1}, ["a"] * 99, [{}], {"": {}}),
)
"""Values that may replace any value in a JSON document."""

BINARY = (flip_bits, set_bytes, set_number, set_number, cut, remove, repeat, insert)
TEXT = (*BINARY, insert_word, insert_word, insert_word)


def mutate(
    seeds: Sequence[bytes], generator: Generator, changes: Sequence[Callable[[bytearray, Generator], None]] = BINARY
) -> bytes:
    """Change one of the files in one to four ways; sometimes append the end of a different one."""
    data = bytearray(seeds[int(generator.integers(len(seeds)))])
    if generator.random() < 0.05:
        other = seeds[int(generator.integers(len(seeds)))]
        del data[int(generator.integers(0, len(data))) :]
        data += other[int(generator.integers(0, len(other))) :]
    for _ in range(int(generator.integers(1, 5))):
        if data:
            changes[int(generator.integers(len(changes)))](data, generator)
    return bytes(data)


def mutate_json(document: object, generator: Generator) -> bytes:
    """Return the text of a document with one to three values changed or removed."""
    document = json.loads(json.dumps(document))
    for _ in range(int(generator.integers(1, 4))):
        place = document
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[int(generator.integers(len(keys)))]
            inner = place[key]
            if not isinstance(inner, dict | list) or not inner or generator.random() < 0.2:
                if generator.random() < 0.15:
                    del place[key]
                else:
                    place[key] = copy.deepcopy(VALUES[int(generator.integers(len(VALUES)))])
                break
            place = inner
    return json.dumps(document, indent=1 if generator.random() < 0.5 else None).encode()


def mend_png(data: bytes) -> bytes:
    """Recompute the checksums of all chunks, as an attacker would."""
    mended, place = data[:8], 8
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        body = data[place + 4 : place + 8 + length]
        mended += data[place : place + 4] + body + struct.pack(">I", zlib.crc32(body))
        place += 12 + length
    return mended + data[place:]


def mend_tar(data: bytes) -> bytes:
    """Recompute the checksums of all headers."""
    mended = bytearray(data)
    for place in range(0, len(mended) - 511, 512):
        block = mended[place : place + 512]
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            mended[place + 148 : place + 156] = b"%06o\0 " % sum(block)
    return bytes(mended)
