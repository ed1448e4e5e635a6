"""Call the engine's operations in-process."""

import os
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import parse
from frn_tui.engine.operations import build_handlers
from frn_tui.engine.worker_queues import Handler, Job, serve

from frn.system.processes.messages import decode, encode

Message = dict[str, Any]


class Asked:
    """The result of a request."""

    def __init__(self, messages: list[Message]) -> None:
        self.events = [message for message in messages if "event" in message]
        (self.end,) = [message for message in messages if "end" in message]

    def told(self, event: str) -> list[Message]:
        return [message for message in self.events if message["event"] == event]

    @property
    def reason(self) -> str:
        assert self.end["end"] == "failed", self.end
        return str(self.end["reason"])


class Engine:
    def __init__(self, handlers: dict[str, Handler]) -> None:
        self.handlers = handlers

    def ask(self, op: str, /, cancel_at: str = "", **arguments: Any) -> Asked:
        """Serve a request immediately; `cancel_at` names the event at which it is cancelled."""
        messages: list[Message] = []

        def send(message: Any) -> None:
            messages.append(decode(encode(message)))
            if message.get("event") == cancel_at:
                job.cancelled.set()

        try:
            job = Job(1, parse({"op": op, **arguments}), send)
        except ValueError as error:
            return Asked([{"end": "failed", "reason": str(error)}])
        serve(self.handlers[op], job)
        return Asked(messages)

    def done(self, op: str, /, **arguments: Any) -> Any:
        end = self.ask(op, **arguments).end
        assert end["end"] == "done", end
        return end["result"]

    def sort(self, folder: str, photos: list[list[str]], journal: str = "", **options: Any) -> dict[str, Any]:
        """Sort photos, given by path and verdict, one after the other."""
        verdicts = dict.fromkeys([*options.pop("verdicts", ()), *(verdict for _, verdict in photos)])
        found: dict[str, Any] = {"places": {}, "failed": [], "twins": [], "journal": journal}
        for path, verdict in photos:
            arguments = {"path": path, "verdict": verdict, "verdicts": [*verdicts], "journal": found["journal"]}
            end = self.ask("sort", folder=folder, **arguments, **options).end
            if end["end"] == "failed":
                assert end["code"] == "not_placed", end
                found["failed"].append([path, end["reason"]])
                continue
            found["places"][path], found["journal"] = end["result"]["place"], end["result"]["journal"]
            found["twins"] += [path] if end["result"]["is_twin"] else []
        return found

    def move(self, journal: str, photos: list[list[Any]], back: bool) -> dict[str, Any]:
        """Move photos, given by both paths and whether they are twins, one after the other."""
        found: dict[str, Any] = {"places": {}, "failed": []}
        for path, place, is_twin in photos:
            source, target = (place, path) if back else (path, place)
            end = self.ask("move", journal=journal, source=source, target=target, is_twin=is_twin, back=back).end
            if end["end"] == "failed":
                assert end["code"] == "not_placed", end
                found["failed"].append([source, end["reason"]])
            else:
                found["places"][source] = target
        return found

    def state(self, classes: dict[str, list[Path]], threshold: float | None = None) -> Message:
        paths = [str(path) for members in classes.values() for path in members]
        known = {e["path"]: e for e in self.ask("embed", paths=paths).told("embedded")}
        entries = [
            {"id": i, "name": name, "supports": [_support(known[str(path)]) for path in members]}
            for i, (name, members) in enumerate(classes.items(), 1)
        ]
        return {"classes": entries, "threshold": threshold, "next_id": len(entries) + 1}


class Unwanted(Job):
    """A job that is cancelled once it has begun."""

    def check(self) -> None:
        super().check()
        self.cancelled.set()


def _support(event: Message) -> Message:
    return {name: event[name] for name in ("path", "key", "size", "mtime_ns")}


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("FRN_STATE", str(folder))
    return folder


@pytest.fixture
def bare(state_folder: Path) -> Engine:
    return Engine(build_handlers(os.getpid()))


@pytest.fixture
def engine(bare: Engine) -> Engine:
    bare.done("open_model", model="conv4")
    return bare


@pytest.fixture
def members(moths: Path) -> dict[str, list[Path]]:
    return {folder.name: sorted(folder.iterdir()) for folder in sorted((moths / "test").iterdir())}


def first(members: dict[str, list[Path]], shot: int) -> dict[str, list[Path]]:
    return {name: paths[:shot] for name, paths in members.items()}
