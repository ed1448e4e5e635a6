"""Damaged archives: data sets, and bundles of a project with its photos."""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import cast

import numpy as np

from frn.data.prepare.sources import Sources
from frn.data.synthetic import draw_moth, species
from frn.projects.project import is_project, load_project
from tests.campaign.campaign import Part
from tests.campaign.files import PROJECT, damaging
from tests.campaign.mutations import mend_tar, mutate, mutate_json


@cache
def _picture(number: int) -> bytes:
    file = io.BytesIO()
    draw_moth(species(number % 3), np.random.default_rng(number), 32).save(file, "PNG")
    return file.getvalue()


def _listed(suffix: str) -> Callable[[bytes, Path], None]:
    def door(data: bytes, folder: Path) -> None:
        (folder / f"x{suffix}").write_bytes(data)
        with Sources([folder / f"x{suffix}"]) as sources:
            for found in sources.files():
                found.read()

    return door


def zips() -> Part:
    """List the archive and read every entry."""
    good = []
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as archive:
            for number in range(4):
                archive.writestr(f"train/moth {number % 2}/{number}.png", _picture(number))
        good.append(file.getvalue())
    return Part(5_000, damaging(good), _listed(".zip"))


def tars() -> Part:
    """List the archive and read every entry; in half of the cases the checksums are corrected."""
    import gzip

    plain = []
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
            for number in range(4):
                info = tarfile.TarInfo(f"train/moth {number % 2}/{'long ' * 30 * (number == 3)}{number}.png")
                info.size = len(_picture(number))
                archive.addfile(info, io.BytesIO(_picture(number)))
            link = tarfile.TarInfo("train/moth 0/link.png")
            link.type, link.linkname = tarfile.SYMTYPE, "0.png"
            archive.addfile(link)
        plain.append(file.getvalue())

    def make(generator: np.random.Generator) -> bytes:
        data = mutate(plain, generator)
        if generator.random() < 0.5:
            data = mend_tar(data)
        if generator.random() < 0.3:
            data = gzip.compress(data, 1)
            data = mutate([data], generator) if generator.random() < 0.3 else data
        return data

    return Part(5_000, make, _listed(".tar"))


def bundles() -> Part:
    """Bundled projects: only complete files are unpacked, and none outside the folder.

    Half of the cases are intact zips with a damaged project, additional entries, or entries that lead outside.
    """
    from frn_tui.client.file_requests import UnpackBundle
    from frn_tui.engine.files.bundles import unpack
    from frn_tui.engine.worker_queues import Job

    good = []
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as archive:
            archive.writestr("b/b.frn.json", json.dumps(PROJECT))
            for number in range(3):
                archive.writestr(f"b/moth/{number}.png", _picture(number))
        good.append(file.getvalue())
    silent = SimpleNamespace(check=lambda: None, progress=lambda done, total: None)
    damaged = damaging(good)
    foreign = ("frn.toml", ".bashrc", "moth/run.sh", "moth/.x.png", "moth/9.png", "../y.png", "/y.png", "c/z.png", "b")

    def make(generator: np.random.Generator) -> bytes:
        if generator.random() < 0.5:
            return damaged(generator)
        project = PROJECT if generator.random() < 0.3 else mutate_json(PROJECT, generator)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("b/b.frn.json", json.dumps(project) if isinstance(project, dict) else project)
            for number in range(3):
                archive.writestr(f"b/moth/{number}.png", mutate([_picture(number)], generator))
            for name in foreign:
                if generator.random() < 0.1:
                    archive.writestr(zipfile.ZipInfo(name if name[0] in "./" else f"b/{name}"), name)
        return file.getvalue()

    def door(data: bytes, folder: Path) -> None:
        (folder / "x.zip").write_bytes(data)
        try:
            unpack(UnpackBundle(path=str(folder / "x.zip"), folder=str(folder / "in" / "b")), cast(Job, silent))
            home = folder / "in" / "b"
            (project,) = home.glob("*.frn.json")
            named = {support.path for entry in load_project(project).state.classes for support in entry.supports}
            for path in home.rglob("*"):
                assert path.is_dir() or path == project or path in named, path
                assert not path.is_symlink(), path
                assert path.is_dir() or path.name[0] != ".", path
            with zipfile.ZipFile(folder / "x.zip") as archive:
                (top,) = (PurePosixPath(name).parent for name in archive.namelist() if is_project(Path(name)))
                for path in filter(Path.is_file, home.rglob("*")):
                    assert path.read_bytes() == archive.read(str(top / path.relative_to(home).as_posix())), path
        finally:
            left = [entry.name for home in (folder, folder / "in") if home.exists() for entry in home.iterdir()]
            assert sorted(left) in (["x.zip"], ["in", "x.zip"], ["b", "in", "x.zip"]), left

    return Part(5_000, make, door)
