"""Render photos of sea shells and of other things from a beach, path traced on sand, pebbles, rock and wood.

    pip install '.[samples]' && python assets/samples/render.py [NAME …]

Raup (1966, "Geometric analysis of shell coiling") describes a shell by a closed curve that turns around an axis: in a
turn it grows by a factor of `whorl`, at a distance `axis` from the axis, and slides along it by `shift` of that
distance. A photo's name is its seed, so it always shows the same scene. NAME is the start of a path such as
`queries/cockle`; without one, all photos are rendered. Mitsuba compiles with LLVM 17 or newer, which it looks for in
DRJIT_LIBLLVM_PATH.
"""

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import drjit as dr
import mitsuba as mi
import numpy as np
from PIL import Image, ImageFilter

mi.set_variant("llvm_ad_rgb")
dr.set_thread_count(1)

HERE = Path(__file__).parent
SHOTS, QUERIES, STRANGERS = 5, 3, 2
LONG, SHORT = 288, 216
RAYS = 9  # paths a pixel
REACH = 2  # pixels in each direction that noise is averaged over
TURN = 2 * np.pi

Array = np.ndarray
Shape = tuple[Array, Array, Array]  # vertices (n, 3), triangles (m, 3) and the vertices' linear RGB (n, 3)


@dataclass(frozen=True, kw_only=True)
class Shell:
    """A species. Lengths are in radii of the curve at the aperture."""

    whorl: float
    axis: float = 0.0
    shift: float = 0.0
    turns: float
    tall: float = 1.0  # height of the curve over its width
    lean: float = 0.0
    square: float = 2.0  # exponent of the superellipse: 2 is an ellipse, 4 nearly a rectangle
    ribs: float = 0.0  # ridges along the axis in every turn, and how high they stand
    rib_height: float = 0.0
    cords: float = 0.0  # ridges along the spiral, and how high they stand
    cord_height: float = 0.0
    ground: tuple[float, float, float]
    marking: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pattern: Callable[[Array, Array, Array], Array] = lambda t, p, noise: np.zeros_like(t)
    """Amount of marking from the angle along the spiral, the angle around the curve, and noise."""
    lining: tuple[float, float, float] = (0.80, 0.68, 0.55)
    tilt: tuple[float, float] = (60, 110)  # degrees by which the axis leans from upright
    spin: tuple[float, float] = (0, 360)
    flips: float = 0.0  # how often it lies the other way up
    size: float = 1.0


def step(x: Array, edge: float, soft: float = 0.06) -> Array:
    """Return a smooth step from 0 to 1 at an edge."""
    return 1 / (1 + np.exp(-(x - edge) / soft))


MOON = Shell(
    whorl=2.3,
    axis=0.03,
    shift=0.85,
    turns=5,
    tall=1.12,
    ground=(0.46, 0.34, 0.26),
    lining=(0.55, 0.30, 0.17),
    tilt=(25, 100),
)
TURRET = Shell(
    whorl=1.25,
    shift=6.2,
    turns=11,
    tall=1.05,
    cords=9,
    cord_height=0.022,
    ground=(0.45, 0.27, 0.15),
    marking=(0.27, 0.13, 0.06),
    pattern=lambda t, p, noise: 0.5 * step(noise, 0.5),
    tilt=(86, 94),
)
SPECIES = {
    "moon snail": MOON,
    "banded moon snail": replace(
        MOON,
        marking=(0.13, 0.04, 0.015),
        pattern=lambda t, p, noise: (
            step(np.cos(p - 0.55 + 0.04 * noise), 0.93, 0.012) + step(np.cos(p + 0.35 + 0.04 * noise), 0.945, 0.012)
        ),
    ),
    "turret": TURRET,
    "ribbed turret": replace(TURRET, ribs=11, rib_height=0.19, ground=(0.66, 0.52, 0.38)),
    "cone shell": Shell(
        whorl=1.3,
        shift=2.45,
        turns=8,
        tall=2.75,
        lean=0.62,
        ground=(0.85, 0.79, 0.68),
        marking=(0.30, 0.12, 0.05),
        pattern=lambda t, p, noise: step(np.cos(11 * t + 3 * noise) * np.cos(26 * p + 2 * noise), 0.30, 0.05),
        lining=(0.85, 0.75, 0.68),
        tilt=(84, 100),
    ),
    "top shell": Shell(
        whorl=1.38,
        shift=1.9,
        turns=8,
        square=3.4,
        tall=0.95,
        lean=-0.35,
        cords=13,
        cord_height=0.03,
        ground=(0.72, 0.55, 0.46),
        marking=(0.45, 0.10, 0.12),
        pattern=lambda t, p, noise: step(np.cos(9 * t + 1.2 * noise), 0.25, 0.15),
        lining=(0.80, 0.76, 0.70),
        tilt=(-25, 25),
        size=0.9,
    ),
    "cockle": Shell(
        whorl=3000.0,
        turns=0.5,
        shift=0.15,
        cords=26,
        cord_height=0.045,
        ground=(0.80, 0.66, 0.48),
        marking=(0.52, 0.26, 0.15),
        pattern=lambda t, p, noise: 0.8 * step(np.cos(30 * t + noise), 0.35, 0.25),
        lining=(0.82, 0.77, 0.72),
        tilt=(80, 100),
        spin=(0, 0),
        flips=0.6,
        size=0.9,
    ),
    "nautilus": Shell(
        whorl=3.1,
        turns=3,
        tall=1.0,
        ground=(0.86, 0.80, 0.70),
        marking=(0.42, 0.13, 0.05),
        pattern=lambda t, p, noise: (
            step(np.cos(13 * t + 0.9 * np.cos(2 * p) + 1.1 * noise), 0.1, 0.12) * step(-t, 1.1, 0.35)
        ),
        lining=(0.83, 0.77, 0.70),
        tilt=(0, 18),
        size=1.15,
    ),
}


def ripples(points: Array, scale: float, rng: np.random.Generator, waves: int = 16) -> Array:
    """Return smooth noise of unit variance at points (n, k), with details of about `scale`."""
    directions = rng.normal(0, 1 / scale, (waves, points.shape[1]))
    phases = points.astype(np.float32) @ directions.T.astype(np.float32) + rng.uniform(0, TURN, waves).astype(
        np.float32
    )
    return np.sqrt(2 / waves) * np.cos(phases).sum(1)


def roughness(points: Array, scale: float, rng: np.random.Generator, octaves: int = 5) -> Array:
    """Return fractal noise: each octave has half the scale and half the height of the one before."""
    return sum(ripples(points, scale / 2**octave, rng) / 2**octave for octave in range(octaves))


def sheet(rows: int, columns: int, around: bool) -> Array:
    """Return the triangles of a grid of vertices, which may close around its columns."""
    row = np.arange(rows - 1)[:, None] * columns
    column = np.arange(columns if around else columns - 1)[None]
    following = (column + 1) % columns
    a, b, c, d = row + column, row + following, row + columns + column, row + columns + following
    return np.concatenate([np.stack(corners, -1).reshape(-1, 3) for corners in ((a, c, b), (b, c, d))])


def coil(kind: Shell, rng: np.random.Generator) -> Shape:
    """Build one shell of a species, about 2 units long, with a lip and a lined inside."""
    kind = replace(
        kind,
        whorl=kind.whorl ** rng.uniform(0.96, 1.04),
        shift=kind.shift * rng.uniform(0.96, 1.04),
        rib_height=kind.rib_height * rng.uniform(0.85, 1.1),
    )
    around = 84
    outside = np.linspace(-TURN * kind.turns, 0, int(72 * max(kind.turns, 2.0)))
    inside = np.linspace(0, -TURN * min(1.0, kind.turns), 80)
    lip = np.zeros(4)
    t = np.concatenate([outside, lip, inside])
    thickness = np.concatenate([np.ones(len(outside)), [1.015, 1.01, 0.98, 0.955], np.full(len(inside), 0.94)])
    lined = np.concatenate([np.zeros(len(outside)), [0.3, 0.8, 1, 1], np.ones(len(inside))])
    t, p = (grid.ravel() for grid in np.meshgrid(t, np.linspace(0, TURN, around, endpoint=False), indexing="ij"))
    thickness, lined = np.repeat(thickness, around), np.repeat(lined, around)
    grown = kind.whorl ** (t / TURN)
    centre = (1 + kind.axis) / (1 - kind.axis)
    curve = (np.abs(np.cos(p)) ** kind.square + np.abs(np.sin(p)) ** kind.square) ** (-1 / kind.square) * thickness
    ridges = kind.rib_height * np.maximum(np.cos(kind.ribs * t), -0.3) if kind.ribs else 0.0
    cords = kind.cord_height * np.cos(kind.cords * p) if kind.cords else 0.0
    curve = curve * (1 + (ridges + cords) * (1 - 0.7 * lined))
    across, up = curve * np.cos(p), curve * np.sin(p)
    far = (centre + across + kind.lean * up) * grown
    vertices = np.stack([far * np.cos(t), far * np.sin(t), (kind.tall * up - kind.shift * centre) * grown], -1)
    vertices -= (vertices.max(0) + vertices.min(0)) / 2
    vertices *= kind.size / np.abs(vertices).max()
    growth = roughness(np.stack([t * 9, np.cos(p), np.sin(p)], -1), 2.0, rng, 4)
    vertices *= 1 + 0.004 * growth[:, None]
    noise = ripples(np.stack([t * 3, np.cos(p) * 2, np.sin(p) * 2], -1), 1.2, rng, 24)
    hue = np.clip(rng.normal(1, 0.05, 3) * rng.uniform(0.85, 1.12), 0, 1.25)
    marked = np.clip(kind.pattern(t, p, noise), 0, 1)[:, None] * rng.uniform(0.8, 1.0)
    colour = (1 - marked) * np.array(kind.ground) * hue + marked * np.array(kind.marking) * hue
    colour = colour * (1 + 0.07 * growth[:, None])
    worn = np.clip(0.25 * roughness(vertices, 0.5, rng) - 0.2, 0, 0.5)[:, None] * rng.uniform(0.2, 1)
    colour = (1 - worn) * colour + worn * 0.7
    colour = np.where(
        lined[:, None] > 0, (1 - lined[:, None]) * colour + lined[:, None] * np.array(kind.lining), colour
    )
    return vertices, sheet(len(t) // around, around, True), np.clip(colour, 0.01, 0.95)


def turned(vertices: Array, spin: float, tilt: float, heading: float) -> Array:
    """Turn about the upright axis, then lean over, then turn again; angles in degrees."""
    a, b, c = np.radians([spin, tilt, heading])
    upright = [np.array([[np.cos(x), -np.sin(x), 0], [np.sin(x), np.cos(x), 0], [0, 0, 1]]) for x in (a, c)]
    over = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return vertices @ (upright[1] @ over @ upright[0]).T


def ball(rows: int = 20, columns: int = 30) -> tuple[Array, Array]:
    """Return the points and faces of a unit sphere."""
    up, round_ = np.meshgrid(np.linspace(0, np.pi, rows), np.linspace(0, TURN, columns, endpoint=False), indexing="ij")
    points = np.stack([np.sin(up) * np.cos(round_), np.sin(up) * np.sin(round_), np.cos(up)], -1).reshape(-1, 3)
    return points, sheet(rows, columns, True)


def joined(shapes: list[Shape]) -> Shape:
    """Join shapes into one."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _, _ in shapes)])
    return (
        np.concatenate([vertices for vertices, _, _ in shapes]),
        np.concatenate([faces + start for (_, faces, _), start in zip(shapes, starts, strict=False)]),
        np.concatenate([colours for _, _, colours in shapes]),
    )


STONES = np.array(
    [
        (0.30, 0.29, 0.27),
        (0.42, 0.38, 0.33),
        (0.20, 0.19, 0.19),
        (0.55, 0.52, 0.47),
        (0.36, 0.25, 0.19),
        (0.62, 0.60, 0.57),
    ]
)


def stone(size: float, rng: np.random.Generator, rows: int = 20) -> Shape:
    """Build a rounded pebble of about the given radius."""
    points, faces = ball(rows, rows * 3 // 2)
    points = (
        points
        * (1 + 0.16 * ripples(points, 1.1, rng, 8))[:, None]
        * size
        * np.array([rng.uniform(0.8, 1.3), 1, rng.uniform(0.4, 0.7)])
    )
    points = turned(points, 0, rng.normal(0, 12), rng.uniform(0, 360))
    base = STONES[rng.integers(len(STONES))] * rng.uniform(0.8, 1.2)
    speckle = 1 + 0.12 * roughness(points / size, 0.6, rng, 4) + rng.normal(0, 0.05, len(points))
    return points, faces, np.clip(base * speckle[:, None], 0.02, 0.9)


def glass(rng: np.random.Generator) -> Shape:
    """Build a piece of glass that the sea has rounded."""
    points, faces = ball(60, 90)
    corners = (np.abs(points) ** 3).sum(1) ** (-1 / 3)
    points = (
        points
        * (corners * (1 + 0.07 * ripples(points, 0.9, rng, 10)))[:, None]
        * [rng.uniform(0.7, 0.95), rng.uniform(0.5, 0.7), 0.28]
    )
    tone = [(0.10, 0.45, 0.28), (0.12, 0.35, 0.50), (0.50, 0.62, 0.55)][rng.integers(3)]
    return points, faces, np.tile(tone, (len(points), 1)) * (1 + 0.03 * rng.normal(size=(len(points), 1)))


def starfish(rng: np.random.Generator) -> Shape:
    """Build five arms as one sheet: the height falls to the edge, and a ridge of bumps follows each arm."""
    rows, columns = 90, 400
    out, angle = (
        g.ravel()
        for g in np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, TURN, columns, endpoint=False), indexing="ij")
    )
    bend = angle + 0.16 * out * np.sin(2 * angle + rng.uniform(0, TURN)) * rng.uniform(0.4, 1)
    arm = np.abs((angle * 5 / TURN + 0.5) % 1 - 0.5) * 2  # 0 on an arm, 1 between two arms
    reach = 0.26 + 0.74 * np.exp(-((arm / 0.34) ** 1.6))
    x, y = out * reach * np.cos(bend), out * reach * np.sin(bend)
    points = np.stack([x, y], -1)
    bumps = np.clip(ripples(points, 0.02, rng, 40), 0, 2) * (out < 0.95)
    z = 0.26 * np.sqrt(np.clip(1 - out**1.8, 0, 1)) * (0.55 + 0.45 * (1 - arm) ** 2) * (1 - 0.45 * out) + 0.008 * bumps
    base = np.array([(0.52, 0.22, 0.08), (0.42, 0.15, 0.10)][rng.integers(2)])
    colour = base * (0.85 + 0.28 * bumps[:, None] + 0.1 * ripples(points, 0.3, rng)[:, None])
    return np.stack([x, y, z], -1), sheet(rows, columns, True), np.clip(colour, 0.02, 0.9)


def finger(knots: Array, width: float, rng: np.random.Generator) -> Shape:
    """Build a tapered tube along a curve through three points of the ground, with teeth on its inner side."""
    rows, columns = 70, 40
    s, p = (
        g.ravel()
        for g in np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, TURN, columns, endpoint=False), indexing="ij")
    )
    x, y = (np.stack([(1 - s) ** 2, 2 * s * (1 - s), s * s], -1) @ knots).T
    dx, dy = (np.stack([2 * s - 2, 2 - 4 * s, 2 * s], -1) @ knots).T / np.hypot(
        *(np.stack([2 * s - 2, 2 - 4 * s, 2 * s], -1) @ knots).T
    )
    inner = -np.sign(knots[1, 1])
    radius = width * np.sqrt(np.clip(1 - s**2.2, 0, 1)) * (1 + 0.12 * np.cos(36 * s) * step(inner * np.cos(p), 0.6))
    points = np.stack([x - radius * np.cos(p) * dy, y + radius * np.cos(p) * dx, 0.8 * radius * np.sin(p)], -1)
    tip, pale = step(s, 0.72, 0.05)[:, None], np.clip(-np.sin(p), 0, 1)[:, None] * 0.5
    colour = (1 - tip) * np.array(SHELL_OF_CRAB) + tip * np.array((0.10, 0.05, 0.04))
    colour = (1 - pale) * colour + pale * np.array((0.75, 0.55, 0.40))
    return (
        points,
        sheet(rows, columns, True),
        np.clip(colour * (1 + 0.14 * roughness(points, 0.25, rng)[:, None]), 0.02, 0.9),
    )


def claw(rng: np.random.Generator) -> Shape:
    """Build a crab's claw: a palm, a wrist and two fingers that nearly close."""
    palm, faces = ball(60, 80)
    palm = palm * (1 + 0.03 * ripples(palm, 0.25, rng))[:, None] * [0.50, 0.40, 0.25] + [-0.35, 0, 0]
    colour = np.array(SHELL_OF_CRAB) * (1 + 0.16 * roughness(palm, 0.3, rng))[:, None]
    wrist, wrist_faces = ball(30, 40)
    wrist = wrist * [0.22, 0.17, 0.16] + [-0.92, 0.05, 0]
    return joined(
        [
            (palm, faces, np.clip(colour, 0.02, 0.9)),
            (wrist, wrist_faces, np.tile((0.50, 0.16, 0.08), (len(wrist), 1))),
            finger(np.array([(-0.1, 0.20), (0.45, 0.52), (0.95, 0.06)]), 0.19, rng),
            finger(np.array([(-0.1, -0.20), (0.40, -0.48), (0.88, -0.04)]), 0.15, rng),
        ]
    )


SHELL_OF_CRAB = (0.42, 0.14, 0.07)
STRANGE: dict[str, Callable[[np.random.Generator], Shape]] = {
    "pebble": lambda rng: stone(0.85, rng, 90),
    "sea glass": glass,
    "crab claw": claw,
    "starfish": starfish,
}


def ground_of(kind: str, rng: np.random.Generator) -> Shape:
    """Build the ground: fine near the subject, coarse far away."""
    side = 256
    u = np.sinh(np.linspace(-4.2, 4.2, side)) * 0.55
    x, y = (g.ravel() for g in np.meshgrid(u, u, indexing="ij"))
    at = np.stack([x, y], -1)
    grain = rng.normal(0, 1, len(at))
    if kind == "wood":
        plank, along = np.floor(x / 1.9 + 0.3), rng.normal(0, 3, 400)
        within = (x / 1.9 + 0.3) % 1
        offset = along[plank.astype(int) % 400]
        rings = ripples(np.stack([x * 1.6 + offset * 9, y * 0.10 + offset], -1), 0.12, rng, 24) + 0.7 * ripples(
            np.stack([x * 4, y * 0.15 + offset], -1), 0.1, rng, 24
        )
        gap = step(-np.minimum(within, 1 - within), -0.012, 0.003)
        z = -0.10 * gap + 0.006 * rings
        tone = np.array((0.36, 0.27, 0.19)) * (1 + 0.10 * offset / 3)[:, None].clip(0.8, 1.25)
        colour = tone * (1 + 0.17 * rings[:, None] + 0.04 * grain[:, None]) * (1 - 0.8 * gap[:, None])
    elif kind == "rock":
        z = 0.10 * roughness(at, 0.9, rng, 6) + 0.02 * np.abs(ripples(at, 0.12, rng))
        patches = step(roughness(at, 1.2, rng, 4), 0.6, 0.3)[:, None]
        colour = (1 - patches) * np.array((0.075, 0.070, 0.066)) + patches * np.array((0.14, 0.12, 0.085))
        colour = colour * (1 + 0.25 * ripples(at, 0.08, rng, 24)[:, None] + 0.12 * grain[:, None])
    else:  # sand, which also lies between pebbles
        dry = kind == "sand"
        lines = np.sin(at @ rng.normal(0, 3, 2) + 0.8 * ripples(at, 1.5, rng))
        z = 0.035 * lines * dry + 0.03 * roughness(at, 0.7, rng, 4) + 0.006 * grain
        tone = np.array((0.55, 0.43, 0.29)) if dry else np.array((0.30, 0.25, 0.19))
        speck = np.where(rng.random(len(at)) < 0.05, rng.choice([0.45, 1.4], len(at)), 1.0)
        colour = tone * (speck * (1 + 0.09 * grain + 0.05 * ripples(at, 0.5, rng)))[:, None]
    shape = (np.stack([x, y, z], -1), sheet(side, side, False), np.clip(colour, 0.01, 0.9))
    loose = []
    spots, sizes = (260, (0.16, 0.42)) if kind == "pebbles" else (14, (0.03, 0.10)) if kind == "sand" else (0, (0, 0))
    for _ in range(spots):
        size = rng.uniform(*sizes)
        centre = rng.normal(0, 2.4, 2)
        points, faces, tones = stone(size, rng, 16)
        loose.append((points + np.array([*centre, rng.uniform(-0.1, 0.12) * size * 2]), faces, tones))
    return joined([shape, *loose]) if loose else shape


TONES = {"type": "mesh_attribute", "name": "vertex_color"}
MATT = {"type": "diffuse", "reflectance": TONES}
WET = {"type": "principled", "base_color": TONES, "roughness": 0.36, "specular": 0.5}
DULL = {"type": "principled", "base_color": TONES, "roughness": 0.7, "specular": 0.3}
SHELL = {"type": "principled", "base_color": TONES, "roughness": 0.33, "specular": 0.45}
GLASS = {"type": "principled", "base_color": TONES, "roughness": 0.42, "specular": 0.9, "flatness": 0.5}
GROUNDS = {"sand": MATT, "pebbles": MATT, "rock": WET, "wood": MATT}


def mesh(name: str, shape: Shape, surface: dict[str, object]) -> mi.Mesh:
    """Return the shape as a mesh of mitsuba with its vertices' colours."""
    vertices, faces, colours = shape
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict({"type": "twosided", "nested": surface})
    made = mi.Mesh(name, len(vertices), len(faces), has_vertex_normals=True, props=properties)
    made.add_attribute("vertex_color", 3, np.ascontiguousarray(colours, np.float32).ravel())
    values = mi.traverse(made)
    values["vertex_positions"] = np.ascontiguousarray(vertices, np.float32).ravel()
    values["faces"] = np.ascontiguousarray(faces, np.uint32).ravel()
    values.update()
    return made


def photograph(name: str, number: int, *, example: bool) -> Image.Image:
    """Render a photo: the name and the number choose the subject, its place, the ground, the light and the camera."""
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng([seed, number])
    stranger = name in STRANGE
    kind = SPECIES.get(name)
    ground = list(GROUNDS)[(number + seed) % 4]
    if name == "pebble" and ground == "pebbles":
        ground = "sand"
    evening = rng.random() < 0.3
    vertices, faces, colours = STRANGE[name](rng) if kind is None else coil(kind, rng)
    tilt, spin = (
        (rng.uniform(-6, 6), 0.0)
        if kind is None
        else (rng.uniform(*kind.tilt) - 180 * (rng.random() < kind.flips), rng.uniform(*kind.spin))
    )
    vertices = turned(vertices, spin, tilt, rng.uniform(0, 360))
    sinks = 0.06 if ground == "sand" else 0.0
    lift = 0.10 if ground == "pebbles" else 0.02
    vertices[:, 2] -= np.quantile(vertices[:, 2], 0.002) + sinks - lift
    below = ground_of(ground, rng)
    small = not example and (number + seed) % 6 == 0
    wide, high = (SHORT, LONG) if rng.random() < 0.2 else (LONG, SHORT)
    view = np.tan(np.radians(18)) / LONG * np.array([wide, high])  # half of the picture at distance 1
    fill = rng.uniform(0.34, 0.42) if small else rng.uniform(0.62, 0.80)
    height = np.radians(rng.uniform(30, 72))
    side = np.radians(rng.uniform(0, 360))
    back = np.array([np.cos(side) * np.cos(height), np.sin(side) * np.cos(height), np.sin(height)])
    across = np.array([-np.sin(side), np.cos(side), 0])
    seen = vertices @ np.stack([across, np.cross(back, across)], 1)
    middle = (seen.max(0) + seen.min(0)) / 2
    extent = (seen.max(0) - seen.min(0)) / 2
    distance = max((extent / view).max() / fill, extent.max() / view.min() / (fill + 0.2))
    middle = middle[0] * across + middle[1] * np.cross(back, across)
    slack = np.maximum(view * distance - extent, 0) * rng.uniform(-1, 1, 2) * (0.8 if small else 0.4)
    aim = middle + slack[0] * across + slack[1] * np.cross(back, across)
    eye = aim + back * distance
    sun = np.radians(rng.uniform(9, 16) if evening else rng.uniform(32, 65))
    azimuth = side + np.radians(rng.uniform(50, 310))  # rarely behind the subject
    shade = (
        np.array((0.62, 0.74, 0.95) if evening else (0.72, 0.84, 1.0)) * rng.uniform(0.8, 1.2) * (0.5 if evening else 1)
    )
    light = np.array((9.5, 5.2, 2.3) if evening else (7.0, 6.4, 5.4)) * (
        rng.uniform(0.15, 0.5) if rng.random() < 0.25 else 1
    )
    scene = mi.load_dict(
        {
            "type": "scene",
            "integrator": {
                "type": "aov",
                "aovs": "albedo:albedo,normal:sh_normal",
                "light": {"type": "path", "max_depth": 4, "rr_depth": 3},
            },
            "sensor": {
                "type": "thinlens",
                "fov": 36,
                "fov_axis": "larger",
                "aperture_radius": float(rng.uniform(0.01, 0.04)),
                "focus_distance": float(np.linalg.norm(eye - middle)) - 0.3,
                "to_world": mi.ScalarTransform4f().look_at(origin=eye, target=aim, up=[0, 0, 1]),
                "film": {"type": "hdrfilm", "width": wide, "height": high, "rfilter": {"type": "gaussian"}},
                "sampler": {"type": "independent", "sample_count": RAYS, "seed": number},
            },
            "sky": {"type": "constant", "radiance": {"type": "rgb", "value": shade.tolist()}},
            "sun": {
                "type": "directional",
                "irradiance": {"type": "rgb", "value": light.tolist()},
                "direction": [
                    float(x) for x in (-np.cos(azimuth) * np.cos(sun), -np.sin(azimuth) * np.cos(sun), -np.sin(sun))
                ],
            },
            "ground": mesh("ground", below, GROUNDS[ground]),
            "subject": mesh(
                "subject", (vertices, faces, colours), GLASS if name == "sea glass" else DULL if stranger else SHELL
            ),
        }
    )
    white = shade + light * np.sin(sun) / np.pi
    return developed(smoothed(np.array(mi.render(scene, seed=number))), white, rng)


def smoothed(rendered: Array) -> Array:
    """Return the light (height, width, 3) with less noise, from light, albedo and normals.

    What falls on a surface changes slowly, its colour does not: light divided by albedo is averaged over near pixels
    that face the same way and are about as bright, and the albedo is multiplied back.
    """
    light, albedo, normal = rendered[..., :3], rendered[..., -6:-3] + 0.02, rendered[..., -3:]
    falls = np.log(light / albedo + 1e-3)
    high, wide = light.shape[:2]
    shifts = [(y, x) for y in range(-REACH, REACH + 1) for x in range(-REACH, REACH + 1)]

    def shifted(values: Array) -> list[Array]:
        padded = np.pad(values, ((REACH, REACH), (REACH, REACH), (0, 0)), "edge")
        return [padded[REACH + y : REACH + y + high, REACH + x : REACH + x + wide] for y, x in shifts]

    around = shifted(falls)
    plain = np.median([near for near, (y, x) in zip(around, shifts, strict=True) if max(abs(y), abs(x)) < 2], 0)
    total, amount = np.zeros_like(light), np.zeros((high, wide, 1))
    for near, facing, bright, (y, x) in zip(around, shifted(normal), shifted(plain), shifts, strict=True):
        distance = ((facing - normal) ** 2).sum(-1) / 0.15 + ((bright - plain) ** 2).mean(-1) / 0.05
        outlier = 2 * np.maximum(near - bright, 0).mean(-1)  # a path that hit the sun by chance
        weight = np.exp(-distance - outlier - (y * y + x * x) / 8)[..., None]
        total, amount = total + weight * near, amount + weight
    return (np.exp(total / amount) - 1e-3) * albedo


def developed(light: Array, white: Array, rng: np.random.Generator) -> Image.Image:
    """Turn light into a photo: exposure, a film's curve, vignette and a little noise."""
    balance = (white / white.mean()) ** 0.6  # cameras take away part of a cast
    light = light / white.mean() / balance * rng.uniform(0.64, 0.86)
    grey = light.mean(-1, keepdims=True)
    light = np.maximum(grey + 1.08 * (light - grey), 0)
    high, wide = light.shape[:2]
    y, x = np.mgrid[-1 : 1 : high * 1j, -1 : 1 : wide * 1j]
    light = light * (1 - 0.16 * (x * x + y * y))[..., None]
    light = np.clip(
        light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14), 0, 1
    )  # Narkowicz's ACES curve
    shown = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055)
    shown = shown + rng.normal(0, 0.008, (high, wide, 1))
    photo = Image.fromarray((np.clip(shown, 0, 1) * 255).round().astype(np.uint8))
    return photo.filter(ImageFilter.UnsharpMask(1.0, 40, 2))


def plan() -> dict[str, tuple[str, int, bool]]:
    """Return name, number and whether it is an example, for the path of every photo."""
    photos = {f"shells/{name}/{n}.jpg": (name, n, True) for name in SPECIES for n in range(1, SHOTS + 1)}
    photos |= {
        f"queries/{name} {n}.jpg": (name, n, False) for name in SPECIES for n in range(SHOTS + 1, SHOTS + QUERIES + 1)
    }
    return photos | {f"queries/{name} {n}.jpg": (name, n, False) for name in STRANGE for n in range(1, STRANGERS + 1)}


if __name__ == "__main__":
    for path, (name, number, example) in sorted(plan().items(), key=lambda item: item[1][1]):
        if not sys.argv[1:] or any(path.startswith(start) for start in sys.argv[1:]):
            (HERE / path).parent.mkdir(parents=True, exist_ok=True)
            photograph(name, number, example=example).save(HERE / path, quality=87)
            print(path, flush=True)
