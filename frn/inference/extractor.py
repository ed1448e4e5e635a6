"""A feature extractor in onnxruntime: image files to feature maps, with the head's learned numbers beside them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.images import EvaluationTransform, Pixels, open_image
from frn.inference.enrolment import HeadParameters
from frn.inference.runtime import Device, check_model, open_session, parse_json, read_bytes, run_session

FORMAT = "frn-features"
VERSION = "1"
BATCH = 16
"""Images per run: enough to be fast, few enough that the first answer comes soon."""

Maps = NDArray[np.float32]


class Extractor:
    """What `features.onnx` does: (n, S, S, 3) pixels to (n, r, d) feature maps."""

    def __init__(
        self, data: bytes, where: str, *, trusted: bool = False, device: Device = "auto", threads: int = 0
    ) -> None:
        """Open an extractor.

        Args:
            data: bytes of a `features.onnx`.
            where: what to call it in a message.
            trusted: skip the check of a file that we made ourselves.
            device: where to run.
            threads: of the processor; 0 means all cores this process may use.

        Raises:
            FrnError: if the file is not an extractor of a known version, or fails the checks of `runtime`.
        """
        checked = None if trusted else check_model(data, where, [FORMAT])
        if not threads and hasattr(os, "sched_getaffinity"):
            threads = len(os.sched_getaffinity(0))
        self.session = open_session(data, where, device=device, threads=threads)
        metadata = checked or self.session.get_modelmeta().custom_metadata_map
        if metadata.get("frn.version") != VERSION:
            raise FrnError(f"{where}: has format version {metadata.get('frn.version')}; this program reads {VERSION}")
        config = parse_json(metadata, "frn.config", where)
        head = parse_json(metadata, "frn.head", where)
        grid = parse_json(metadata, "frn.grid", where)
        try:
            self.transform = EvaluationTransform(**config["transform"])
            self.method = str(config["method"])
            self.grid = (int(grid[0]), int(grid[1]))
            self.head = HeadParameters(**head) if self.method == "frn" else None
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FrnError(f"{where}: its metadata is damaged ({error})") from error
        self._check_signature(where)

    @classmethod
    def open(cls, path: Path, *, trusted: bool = False, device: Device = "auto", threads: int = 0) -> "Extractor":
        """Open a file.

        Raises:
            FrnError: if it cannot be read, or is refused.
        """
        return cls(read_bytes(path), str(path), trusted=trusted, device=device, threads=threads)

    def _check_signature(self, where: str) -> None:
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        side = self.transform.size
        expected_in = [("images", "tensor(float)", [3, side, side])]
        found_in = [(value.name, value.type, value.shape[1:]) for value in inputs]
        r = self.grid[0] * self.grid[1]
        fits = len(outputs) == 1 and outputs[0].name == "feature_map" and outputs[0].shape[1:2] == [r]
        if found_in != expected_in or not fits:
            raise FrnError(f"{where}: its inputs and outputs are not those of an extractor of {side}-pixel images")

    def feature_maps(self, pixels: Pixels) -> Maps:
        """Feature maps (n, r, d) of prepared images (n, S, S, 3) uint8."""
        images = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), dtype=np.float32)
        images /= 255
        (maps,) = run_session(self.session, ["feature_map"], {"images": images})
        return maps

    def read(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Maps | FrnError]]:
        """Feature maps (r, d) of image files, in order; one that cannot be read yields its error."""
        waiting: list[tuple[Path, Pixels | FrnError]] = []
        for path in paths:
            try:
                waiting.append((path, self.transform(open_image(path))))
            except FrnError as error:
                waiting.append((path, error))
            if len(waiting) == BATCH:
                yield from self._flush(waiting)
                waiting = []
        yield from self._flush(waiting)

    def _flush(self, waiting: list[tuple[Path, Pixels | FrnError]]) -> Iterator[tuple[Path, Maps | FrnError]]:
        pixels = [pixels for _, pixels in waiting if not isinstance(pixels, FrnError)]
        maps = iter(self.feature_maps(np.stack(pixels)) if pixels else ())
        for path, outcome in waiting:
            yield path, outcome if isinstance(outcome, FrnError) else next(maps)
