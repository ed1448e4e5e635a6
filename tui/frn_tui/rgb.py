"""Small pictures as the engine sends them."""

import base64
import binascii
from dataclasses import dataclass

from frn_tui.protocol import Picture


@dataclass(frozen=True, slots=True)
class Rgb:
    """A picture of width * height pixels, three bytes each, row by row."""

    width: int
    height: int
    data: bytes

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1 or len(self.data) != 3 * self.width * self.height:
            raise ValueError(f"{len(self.data)} bytes are no {self.width} x {self.height} pixels")

    @classmethod
    def from_picture(cls, picture: Picture) -> "Rgb":
        """Read a picture from a message; raises ValueError if it is no base64, or not that many pixels."""
        try:
            data = base64.b64decode(picture["rgb"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"a picture that is no base64: {error}") from error
        return cls(picture["width"], picture["height"], data)

    def resized(self, width: int, height: int) -> "Rgb":
        """Take the nearest pixels, to show a picture until one of the right size comes."""
        if (width, height) == (self.width, self.height):
            return self
        columns = [3 * ((2 * x + 1) * self.width // (2 * width)) for x in range(width)]
        rows = []
        for y in range(height):
            start = 3 * self.width * ((2 * y + 1) * self.height // (2 * height))
            row = self.data[start : start + 3 * self.width]
            rows.append(b"".join([row[x : x + 3] for x in columns]))
        return Rgb(width, height, b"".join(rows))
