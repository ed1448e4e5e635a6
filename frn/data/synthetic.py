"""Rendered moths: similar classes without a download, for the demo and the tests.

A species is a small set of numbers (wing shape, eyespots, bands, border, ground colour). An image shows a species in a
random pose, light and place. Species of one genus share their colours and differ only in markings and shape.
"""

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter

from frn.data.pixel_cache import StoredImages
from frn.images.transforms import Pixels

Colour = tuple[int, int, int]
Points = list[tuple[float, float]]

CIRCLE = [(math.cos(a), math.sin(a)) for a in np.linspace(0, 2 * math.pi, 24)]
BODY = [(0.06 * math.sin(a), 0.12 - 0.38 * math.cos(a)) for a in np.linspace(0, 2 * math.pi, 32)]
EYE = (245, 240, 225)


@dataclass(frozen=True, slots=True)
class Species:
    """Features of all moths of one species; lengths are in units of half the image."""

    ground: Colour
    marking: Colour
    span: float  # reach of the forewings
    sweep: float  # angle of the forewings in radians; larger angles point further forward
    tail: float  # length of the tails of the hindwings
    spots: int  # eyespots on each forewing
    spot_size: float
    ringed: bool
    bands: int  # dark bands across each forewing
    band_tilt: float
    border: float  # width of the dark wing border
    hind_spot: bool


def species(seed: int) -> Species:
    """Generate a species; the same seed always gives the same one."""
    generator = np.random.default_rng([seed, 77])
    # Number of colour schemes; there are far more species, so colour alone does not identify one
    colours = np.random.default_rng([int(generator.integers(12)), 78])
    hue, light = colours.random(), colours.uniform(0.55, 0.9)
    ground = _colour(hue, light, colours.uniform(0.25, 0.7))
    marking = _colour(hue + colours.uniform(0.35, 0.65), light * 0.38, 0.6)
    return Species(
        ground=ground,
        marking=marking,
        span=generator.uniform(0.62, 0.86),
        sweep=generator.uniform(0.15, 0.75),
        tail=float(generator.choice([0.0, 0.0, 0.22, 0.4])),
        spots=int(generator.integers(0, 4)),
        spot_size=generator.uniform(0.07, 0.13),
        ringed=bool(generator.random() < 0.5),
        bands=int(generator.integers(0, 4)),
        band_tilt=generator.uniform(-0.6, 0.6),
        border=float(generator.choice([0.0, 0.05, 0.09])),
        hind_spot=bool(generator.random() < 0.5),
    )


def draw_moth(kind: Species, generator: np.random.Generator, size: int) -> Image.Image:
    """Draw one moth of a species in a random pose and place, as RGB of size x size."""
    side = size * 3
    picture, moth = _background(generator, side), _Moth(kind, generator, side)
    for mirror in (-1.0, 1.0):
        moth.draw_wing(_hindwing(kind, mirror))
        if kind.hind_spot:
            moth.draw_disc((0.30 * mirror, 0.28), kind.spot_size * 0.8)
        moth.draw_wing(_forewing(kind, mirror), _bands(kind, mirror))
        for at in _spots(kind, mirror):
            moth.draw_disc(at, kind.spot_size)
            if kind.ringed:
                moth.draw_disc(at, kind.spot_size * 0.55, EYE)
                moth.draw_disc(at, kind.spot_size * 0.25)
    moth.draw_body()
    layer = moth.layer
    shadow = Image.new("RGBA", layer.size, (0, 0, 0, 0))
    shadow.putalpha(layer.getchannel("A").filter(ImageFilter.GaussianBlur(side / 60)).point(lambda a: a * 0.45))
    picture.paste(shadow, (side // 60, side // 45), shadow)
    picture.paste(layer, (0, 0), layer)
    picture = picture.resize((size, size), Image.Resampling.LANCZOS)
    picture = ImageEnhance.Brightness(picture).enhance(generator.uniform(0.75, 1.2))
    return ImageEnhance.Contrast(picture).enhance(generator.uniform(0.8, 1.15))


def draw_classes(classes: int, images: int, *, size: int, seed: int) -> StoredImages:
    """Draw a data set: `classes` species with `images` moths each."""
    kinds = {f"moth {index:03d}": species(seed * 10_000 + index) for index in range(classes)}
    pixels: Pixels = np.stack(
        [
            np.asarray(draw_moth(kind, np.random.default_rng([seed, label, number]), size))
            for label, kind in enumerate(kinds.values())
            for number in range(images)
        ]
    )
    side = np.full(len(pixels), size, dtype=np.int64)
    return StoredImages(tuple(kinds), (images,) * classes, side, side, pixels.reshape(-1), ())


class _Moth:
    """A moth on a transparent layer, with its position and pose.

    Drawing units (half an image, origin in the middle) become pixels here.
    """

    def __init__(self, kind: Species, generator: np.random.Generator, side: int) -> None:
        turn = generator.uniform(-0.6, 0.6)
        self.scale = side / 2 * generator.uniform(1.1, 1.45)
        squeeze = generator.uniform(0.85, 1.0)
        cosine, sine = math.cos(turn), math.sin(turn)
        self.matrix = self.scale * np.array([[cosine * squeeze, -sine], [sine * squeeze, cosine]])
        self.origin = side / 2 + generator.uniform(-0.07, 0.07, 2) * side
        self.border = kind.border
        self.ground, self.marking = _vary(kind.ground, generator), _vary(kind.marking, generator)
        self.layer = Image.new("RGBA", (side, side), (0, 0, 0, 0))

    def place(self, points: Points) -> Points:
        placed = np.asarray(points) @ self.matrix.T + self.origin
        return [(x, y) for x, y in placed.tolist()]

    def width(self, length: float) -> int:
        return max(1, round(length * self.scale))

    def draw_wing(self, outline: Points, bands: Sequence[Points] = ()) -> None:
        """Draw a wing in the ground colour, with its bands and border in the colour of the markings."""
        wing, mask = Image.new("RGBA", self.layer.size, (0, 0, 0, 0)), Image.new("L", self.layer.size, 0)
        shape, pen = self.place(outline), ImageDraw.Draw(wing)
        ImageDraw.Draw(mask).polygon(shape, fill=255)
        pen.polygon(shape, fill=(*self.ground, 255))
        for band in bands:
            pen.line(self.place(band), fill=(*self.marking, 255), width=self.width(0.06))
        if self.border:
            edge = [*shape, *shape[:2]]
            pen.line(edge, fill=(*self.marking, 255), width=self.width(2 * self.border), joint="curve")
        pen.line([*shape, shape[0]], fill=(*(c * 2 // 3 for c in self.ground), 255), width=self.width(1 / 60))
        wing.putalpha(ImageChops.multiply(wing.getchannel("A"), mask))
        self.layer.alpha_composite(wing)

    def draw_disc(self, at: tuple[float, float], radius: float, colour: Colour | None = None) -> None:
        """Draw a disc, in the colour of the markings by default."""
        circle = [(at[0] + radius * x, at[1] + radius * y) for x, y in CIRCLE]
        ImageDraw.Draw(self.layer).polygon(self.place(circle), fill=(*(colour or self.marking), 255))

    def draw_body(self) -> None:
        pen = ImageDraw.Draw(self.layer)
        pen.polygon(self.place(BODY), fill=(*(c * 3 // 4 for c in self.marking), 255))
        for mirror in (-1.0, 1.0):
            feeler = [(0.02 * mirror, -0.24), (0.10 * mirror, -0.42), (0.22 * mirror, -0.52)]
            pen.line(self.place(feeler), fill=(*self.marking, 255), width=self.width(1 / 50))


def _vary(colour: Colour, generator: np.random.Generator) -> Colour:
    red, green, blue = (int(np.clip(c + generator.normal(0, 9), 0, 255)) for c in colour)
    return red, green, blue


def _colour(hue: float, light: float, saturation: float) -> Colour:
    red, green, blue = colorsys.hls_to_rgb(hue % 1, light, saturation)
    return int(red * 255), int(green * 255), int(blue * 255)


def _background(generator: np.random.Generator, side: int) -> Image.Image:
    """Draw bark, leaf or stone: smooth noise at two scales in one hue."""
    base = np.array(_colour(generator.uniform(0.05, 0.45), generator.uniform(0.25, 0.6), generator.uniform(0.08, 0.28)))
    coarse, fine = generator.normal(0, 26, (6, 6, 1)), generator.normal(0, 16, (22, 22, 1))
    picture = sum(
        np.asarray(Image.fromarray(noise[..., 0].astype(np.float32)).resize((side, side), Image.Resampling.BICUBIC))
        for noise in (coarse, fine)
    )
    return Image.fromarray((base + np.asarray(picture)[..., None]).clip(0, 255).astype(np.uint8))


def _forewing(kind: Species, mirror: float) -> Points:
    tip = (kind.span * math.cos(kind.sweep), -kind.span * math.sin(kind.sweep))
    outer = (kind.span * 0.9, 0.16)
    return [(x * mirror, y) for x, y in _smooth([(0.03, -0.20), tip, outer, (0.05, 0.10)])]


def _hindwing(kind: Species, mirror: float) -> Points:
    low = 0.52 + kind.tail
    return [(x * mirror, y) for x, y in _smooth([(0.04, 0.0), (kind.span * 0.72, 0.12), (0.40, low), (0.06, 0.40)])]


def _smooth(corners: Points) -> Points:
    """Round a polygon's corners (Chaikin's corner cutting, three times)."""
    points = np.asarray(corners)
    for _ in range(3):
        following = np.roll(points, -1, axis=0)
        points = np.stack([0.8 * points + 0.2 * following, 0.2 * points + 0.8 * following], axis=1).reshape(-1, 2)
    return [(x, y) for x, y in points.tolist()]


def _bands(kind: Species, mirror: float) -> list[Points]:
    starts = [kind.span * (0.30 + 0.22 * band) for band in range(kind.bands)]
    lean = kind.band_tilt * 0.35
    return [[(x * mirror, 0.35), ((x + lean) * mirror, -0.75)] for x in starts]


def _spots(kind: Species, mirror: float) -> Points:
    places = [(0.62, -0.08), (0.38, -0.06), (0.52, 0.08)]
    lift = math.sin(kind.sweep) * 0.42
    return [(x * kind.span * mirror, y - lift * x) for x, y in places[: kind.spots]]
