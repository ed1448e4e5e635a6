"""An engine without a process, for tests of the app."""

import asyncio
import base64
import random
import zlib
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import LeftMoves
from frn_tui.client.protocol import EXISTS, EngineError, OnEvent, Request, Result

from frn.system.processes.messages import convert, decode, encode


class FakeEngine(EngineClient):
    """Photos are files named CLASS-NUMBER.jpg, and the answer follows from the name. Files named bad* are broken."""

    FOLDERS: ClassVar[dict[str, list[str]]] = {
        "/photos": ["jay", "owl", "wren"],
        "/photos/jay": [f"jay-{number}.jpg" for number in range(6)],
        "/photos/owl": [f"owl-{number}.jpg" for number in range(4)],
        "/photos/wren": [*(f"wren-{number}.jpg" for number in range(5)), "bad-1.jpg"],
        "/queries": ["bad-2.jpg", "jay-10.jpg", "owl-10.jpg", "owl-11.jpg", "swan-1.jpg", "wren-10.jpg"],
        "/home": ["birds.frn.json", "features.onnx"],
    }
    """Content of the disk by folder."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.known: set[str] = set()
        self.classes: dict[str, Any] = {"classes": [], "threshold": None, "next_id": 1}
        self.pause: asyncio.Event | None = None
        self.held: dict[str, asyncio.Event] = {}  # event that operations wait for
        self.late: dict[str, asyncio.Event] = {}
        """Event that the answers of operations wait for, although the engine has done them."""
        self.content: dict[str, str] = {}  # keys of files whose content differs from their name
        self.left: dict[str, Any] = {}  # journal of a killed app
        self.left_before: list[dict[str, Any]] = []  # older journals left by other apps
        self.kept: dict[str, Any] | None = None  # this app's own journal
        self.written: dict[str, str] = {}
        self.saved: list[dict[str, Any]] = []
        self.sorted: list[tuple[str, str, bool]] = []  # sorts into folders: the folder, and whether photos were moved
        self.twins: set[str] = set()  # photos whose content is already in the folder of their verdict
        self.moved: list[dict[str, str]] = []  # photos that were moved back or again: source and target
        self.under_way = False  # whether a move has begun and not ended
        self.left_moves: LeftMoves | None = None  # moves of an earlier app
        self.settled: dict[str, str] = {}  # photos that a program was moving when it was killed
        self.sorted_beside: tuple[str, ...] = ()  # all labels with a folder in the last sort
        self.sizes: dict[str, int] = {}  # sizes of files that are not 1 byte
        self.away: set[str] = set()  # photos that no longer exist at their path
        self.holders: dict[str, int] = {}  # processes of other apps by open project
        self.locked: str | None = None
        self.gone: set[str] = set()  # models that no longer exist
        self.model = ""
        self.chance: random.Random | None = None  # determines how long an answer takes, and whether it fails

    @property
    def pid(self) -> int | None:
        return None

    async def start(self) -> None:
        self.state = "ready"

    async def close(self) -> None:
        self.state = "closed"

    async def call(self, request: Request[Result], on_event: OnEvent | None = None) -> Result:
        self.calls.append(request.op)
        await asyncio.sleep(0)
        if self.pause is not None:
            await self.pause.wait()
        if request.op in self.held:
            await self.held[request.op].wait()
        if (chance := self.chance) is not None:
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01]))
            if chance.random() < 0.02:
                raise EngineError("the engine stopped (signal 9) reading [bold]x[/] \x1b[31m")
        answer = getattr(self, f"op_{request.op}")(on_event or (lambda event: None), **decode(encode(vars(request))))
        if request.op in self.late:
            await self.late[request.op].wait()
        result: Result = convert(decode(encode({"result": answer}))["result"], request.result)
        return result

    def op_open_model(self, tell: OnEvent, model: str) -> dict[str, Any]:
        if model in self.gone:
            raise EngineError(f"{model}: no such file")
        self.known.clear()
        self.model = model
        return {"model": model, "sha256": f"sha of {model}", "bytes": 9_000_000, "head": "frn", "has_maps": True}

    def op_list(self, tell: OnEvent, path: str) -> dict[str, Any]:
        folder = path.rstrip("/") or "/"
        folder = "/photos" if folder == "." else folder
        if folder == "/":
            names = [name.strip("/") for name in self.FOLDERS if name.count("/") == 1]
        elif folder in self.FOLDERS:
            names = self.FOLDERS[folder]
        else:
            raise EngineError(f"{folder}: cannot be listed (No such file or directory)")
        kinds = {"jpg": "image", "json": "project", "onnx": "model", "zip": "bundle"}
        entries = [{"name": name, "kind": kinds.get(name.rpartition(".")[2], "folder")} for name in names]
        return {"path": folder, "entries": entries}

    def op_scan(self, tell: OnEvent, path: str, level: int | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "nothing", "files": [], "classes": {}}
        if path.endswith("/genera"):
            counts = {1_000: {"jay": 6, "owl": 4}, 1: {"corvus": 6, "strix": 4}}
            own = {name: [f"/photos/{name[:3]}/{name}-{i}.jpg" for i in range(2)] for name in counts[level or 1]}
            levels = [{"level": number, "classes": each, "photos": []} for number, each in counts.items()]
            return {**found, "kind": "classes" if level else "levels", "classes": own, "levels": levels}
        members = [f"{path}/{name}" for name in self.FOLDERS.get(path, ())]
        classes = {member.rpartition("/")[2]: member for member in members if member in self.FOLDERS}
        if path.endswith(".frn.json"):
            return {**found, "kind": "project", "files": [path]}
        if path.endswith(".zip"):
            return {**found, "kind": "bundle", "files": [path]}
        if path.endswith(".jpg"):
            return {**found, "kind": "image", "files": [path]}
        if classes:
            photos = {name: [f"{folder}/{file}" for file in self.FOLDERS[folder]] for name, folder in classes.items()}
            return {**found, "kind": "classes", "classes": photos}
        if any(member.endswith(".jpg") for member in members):
            return {**found, "kind": "folder", "files": [member for member in members if member.endswith(".jpg")]}
        return {**found, "reason": f"{path}: No such file or directory"}

    def op_stamp(self, tell: OnEvent, paths: list[str]) -> dict[str, list[int]]:
        return {path: [self.sizes.get(path, 1), 2] for path in paths if path not in self.away}

    def op_folders(self, tell: OnEvent, path: str) -> list[str]:
        return sorted(name[len(path) + 1 :] for name in self.FOLDERS if name.startswith(f"{path.rstrip('/')}/"))

    def op_preview(
        self,
        tell: OnEvent,
        path: str,
        columns: int,
        rows: int,
        mode: str,
        look: str,
        heat: object,
        zoom: float,
        centre: list[float],
        framed: bool,
        subject: list[int],
        views: bool,
        cell: list[int],
        colours: int,
        palette: str,
    ) -> dict[str, Any]:
        if Path(path).name.startswith("bad"):
            raise EngineError(f"{path}: is damaged")
        part = 1 / zoom
        left, top = (min(max(middle - part / 2, 0), 1 - part) for middle in centre)
        colour = zlib.crc32(Path(path).name.encode())
        cells, pixels = _four_fields(columns, rows, colour, look != "photo"), [columns * cell[0], rows * cell[1]]
        if mode == "kitty":
            cells = base64.b64encode(zlib.compress(colour.to_bytes(4, "big")[:3] * (pixels[0] * pixels[1]))).decode()
        elif mode == "sixel":
            cells = "\n".join([f"#0;2;{colour % 100};0;0|#0!{pixels[0]}~"] * rows)
        about = {"mode": mode, "columns": columns, "rows": rows, "pixels": pixels, "photo": [400, 300]}
        about |= {"data": cells, "cells": ""} if mode in ("kitty", "sixel") else {"cells": cells}
        return {**about, "view": [left, top, left + part, top + part]}

    def op_embed(self, tell: OnEvent, paths: list[str]) -> None:
        for number, path in enumerate(paths, 1):
            if Path(path).name.startswith("bad") or path in self.away:
                tell({"event": "embedded", "path": path, "reason": f"{path}: is damaged"})
            else:
                key = self.content.get(path, Path(path).name)
                self.known.add(key)
                tell({"event": "embedded", "path": path, "key": key, "size": 1, "mtime_ns": 2})
            tell({"event": "progress", "done": number, "total": len(paths)})

    def op_classes(self, tell: OnEvent, state: dict[str, Any]) -> dict[str, Any]:
        reports = [
            {
                "id": entry["id"],
                "explained": {s["key"]: 0.5 for s in entry["supports"]},
                "rank": {},
                "rival": {},
                "near": {},
            }
            for entry in state["classes"]
        ]
        threshold = 0.4 if state["threshold"] is None else state["threshold"]
        photos = [support for entry in state["classes"] for support in entry["supports"]] + state["others"]
        away = [photo["path"] for photo in photos if photo["path"] in self.away]
        changed = (photo["path"] for photo in photos if self.content.get(photo["path"], photo["key"]) != photo["key"])
        unread = [photo["path"] for photo in photos if photo["key"] not in self.known] + list(changed)
        unread = [path for path in unread if path not in away]
        if not unread:  # on an error, the classes stay unchanged
            self.classes = state
        known = {support["key"]: 0.5 for entry in state["classes"] for support in entry["supports"]}
        about = {"threshold": threshold, "known": known, "expected": "rejects about 5% of your photos"}
        boxes = self._found(state)
        return {"reports": reports, **about, "unread": unread, "away": away, "unranked": 0, "boxes": boxes}

    def _found(self, state: dict[str, Any]) -> dict[str, dict[str, object]]:
        """Return the same box of each photo without one, in the classes in which another photo has one."""
        entries = state["classes"] if state.get("search", "none") != "none" else []
        boxed = [entry for entry in entries if any("#" in support["path"] for support in entry["supports"])]
        whole = [s["key"] for entry in boxed for s in entry["supports"] if "#" not in s["path"]]
        return {key: {"box": [40, 30, 90, 90], "key": f"{key}#xywh=40,30,90,90"} for key in whole}

    def op_choose_search(self, tell: OnEvent, state: dict[str, Any]) -> dict[str, str]:
        return {"search": "one", "why": "subjects are searched for: they are small"}

    def op_query(self, tell: OnEvent, paths: list[str], jointly: bool = False) -> None:
        for number, path in enumerate(paths, 1):
            search = self.classes.get("search", "none")
            where = f"{path}#xywh=100,90,120,120" if search != "none" and "#" not in path else path
            if Path(path).name.startswith("bad"):
                tell({"event": "answer", "path": path, "reason": f"{path}: is damaged"})
            else:
                box: dict[str, Any] = {}
                if "#" in where:
                    box["box"] = [int(edge) for edge in where.partition("=")[2].split(",")]
                if search == "all":
                    ids = [entry["id"] for entry in self.classes["classes"]]
                    places = zip((ids[0], ids[1], ids[0]), (20, 120, 220), strict=True)
                    box["subjects"] = [{"id": number, "box": [left, 40, 80, 80]} for number, left in places]
                tell(self._answer(where, alone=len(paths) == 1) | {"path": path} | box)
            tell({"event": "progress", "done": number, "total": len(paths)})

    def op_advise(self, tell: OnEvent) -> list[str]:
        return ["add photos to owl: it has a single one"]

    def op_explain(self, tell: OnEvent, path: str, examples: int) -> dict[str, Any]:
        """The first two classes; cell n of 6 is rebuilt from the examples in turn, the first from example n."""

        def rebuilt(entry: dict[str, Any]) -> dict[str, Any]:
            paths = [support["path"] for support in entry["supports"]][:examples]
            sources = [
                [
                    {"path": paths[(cell + place) % len(paths)], "box": [0.0, 0.0, 0.5, 0.5], "share": 0.5 / 2**place}
                    for place in range(len(paths))
                ]
                for cell in range(6)
            ]
            return {"id": entry["id"], "explained": [0.5] * 6, "examples": paths, "sources": sources}

        return {
            "sentence": "why it is so",
            "grid": [2, 3],
            "views": False,
            "shares": [0.1, 0.1, 0.1, 0.1, 0.5, 0.1],
            "parts": [{"box": [1 / 3, 0.5, 1 / 3, 0.5], "share": 0.5}],
            "classes": [rebuilt(entry) for entry in self.classes["classes"] if entry["supports"]][:2],
        }

    def _answer(self, path: str, *, alone: bool) -> dict[str, Any]:
        own = Path(path).name.partition("-")[0]
        scores = [
            {
                "id": entry["id"],
                "probability": 0.9 if entry["name"] == own else 0.1,
                "error": 1.0,
                "explained": 0.45 if entry["name"] == own else 0.35,
            }
            for entry in self.classes["classes"]
            if entry["supports"]
        ]
        if not scores:
            raise EngineError("no class has an example yet")
        scores.sort(key=lambda score: -score["probability"])
        threshold = 0.4 if self.classes["threshold"] is None else self.classes["threshold"]
        answer = {"event": "answer", "path": path, "key": Path(path).name, "size": 1, "mtime_ns": 2}
        best = next(entry for entry in self.classes["classes"] if entry["id"] == scores[0]["id"])
        answer |= {
            "nearest": best["supports"][0]["key"],
            "scores": scores,
            "known": scores[0]["explained"],
            "unknown": threshold > scores[0]["explained"],
        }
        if alone:
            grid = [[(5 * i + j) / 24 for j in range(5)] for i in range(5)]
            answer["maps"] = {str(score["id"]): grid for score in scores}
        return answer

    def op_load(self, tell: OnEvent, path: str) -> dict[str, Any]:
        supports = [{"path": "/p/jay-1.jpg", "key": "old", "size": 1, "mtime_ns": 1}]
        state = {"classes": [{"id": 4, "name": "jay", "supports": supports}], "threshold": None, "next_id": 5}
        return {"state": state, "model": "conv4", "sha256": "sha of conv4"}

    def op_holder(self, tell: OnEvent, path: str) -> int | None:
        return self.holders.get(path)

    def op_lock(self, tell: OnEvent, path: str | None) -> None:
        self.locked = path

    def op_relocate(self, tell: OnEvent, folder: str, sizes: dict[str, int], boxes: tuple[str, ...]) -> dict[str, Any]:
        there = {Path(name).name: f"{folder}/{name}" for name in self.FOLDERS.get(folder, ())}
        return {key: {"path": there[key], "key": key, "size": 1, "mtime_ns": 3} for key in sizes if key in there}

    def op_bundle(self, tell: OnEvent, path: str, state: object, replace: bool) -> None:
        if path in self.written and not replace:
            raise EngineError(f"{path}: already exists", code=EXISTS)
        self.written[path] = "bundle"

    def op_unpack(self, tell: OnEvent, path: str, folder: str) -> str:
        return f"{folder}/birds.frn.json"

    def op_sort(
        self, tell: OnEvent, folder: str, path: str, verdict: str, verdicts: list[str], move: bool, journal: str
    ) -> dict[str, Any]:
        self.sorted_beside = tuple(verdicts)
        self.sorted.append((path, f"{folder}/{verdict}", move))
        place = f"{folder}/{verdict}/{Path(path).name}"
        return {"place": place, "is_twin": path in self.twins, "journal": journal or "/state/moved/1.jsonl"}

    def op_move(self, tell: OnEvent, journal: str, source: str, target: str, is_twin: bool, back: bool) -> None:
        assert journal == "/state/moved/1.jsonl"
        self.moved.append({source: target})

    def op_plan(
        self, tell: OnEvent, folder: str, photos: list[tuple[str, str]], verdicts: list[str], begin: bool
    ) -> dict[str, Any]:
        self.under_way |= begin
        journal = "/state/moved/1.jsonl" if begin else ""
        return {"moves": len(photos), "folders": 3, "stay": 1, "taken": 2, "journal": journal}

    def op_end(self, tell: OnEvent, journal: str) -> None:
        self.under_way = False

    def op_left(self, tell: OnEvent, interrupted: bool) -> LeftMoves | None:
        return self.left_moves if self.left_moves is not None and (interrupted or not self.left_moves.rest) else None

    def op_settle(self, tell: OnEvent) -> tuple[dict[str, str], list[tuple[str, str]]]:
        return self.settled, []

    def op_save(self, tell: OnEvent, **arguments: Any) -> None:
        self.saved.append(arguments)

    def op_journal(self, tell: OnEvent, **arguments: Any) -> None:
        self.kept = arguments

    def op_recover(self, tell: OnEvent) -> dict[str, Any] | None:
        return self.left or None

    def op_discard(self, tell: OnEvent, journal: str | None) -> None:
        if journal is None:
            self.kept = None
        else:
            assert journal == self.left["journal"]
            self.left = self.left_before.pop() if self.left_before else {}

    def op_export(self, tell: OnEvent, path: str, what: str, replace: bool) -> str:
        if path == "/nowhere":
            raise EngineError("/nowhere: cannot be written")
        self.written[path] = what
        return f"{path}: needs onnxruntime-web" if what == "page" else ""

    def op_write(self, tell: OnEvent, path: str, text: str, replace: bool) -> None:
        if path in self.written and not replace:
            raise EngineError(f"{path}: already exists", code=EXISTS)
        self.written[path] = text


@cache
def _four_fields(columns: int, rows: int, seed: int, heat: bool) -> str:
    """An image of four plain colours, as the engine sends it."""
    colours = [bytes(seed >> shift & 255 for shift in (start, start + 4, start + 8)) for start in (0, 5, 10, 15)]
    if heat:
        colours.reverse()
    fields = [2 * colour for colour in colours]
    lines = [
        fields[row] * (columns // 2) + fields[row + 1] * (columns - columns // 2)
        for row in [0] * (rows // 2) + [2] * (rows - rows // 2)
    ]
    return base64.b64encode(b"".join(lines)).decode("ascii")
