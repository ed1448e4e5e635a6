"""Open model: an exported feature extractor in onnxruntime."""

from frn.errors import FrnError
from frn.inference.extractor import Extractor
from frn.models.zoo import require_exported, resolve
from frn.system.hardware import cores
from frn_tui.client.protocol import MIRROR, Model, OpenModel
from frn_tui.engine.worker_queues import Job


class Models:
    """Opens models, one at a time."""

    def __init__(self) -> None:
        self.name = ""
        self.opened: Extractor | None = None

    @property
    def extractor(self) -> Extractor:
        """Return the open model. Raises FrnError if there is no open model."""
        if self.opened is None:
            raise FrnError("no model is loaded yet")
        return self.opened

    def open(self, request: OpenModel, job: Job) -> Model:
        """Open a model in place of the current one, which stays open if the new one is rejected."""
        name = request.model.removesuffix(MIRROR)
        path, trusted = require_exported(name), resolve(name).shipped
        threads = max(1, cores() - 1)  # leave one core for the app
        extractor = Extractor.open(path, trusted=trusted, device="cpu", threads=threads)
        if name != request.model:
            from frn_export.graphs.mirror import mirrored  # imported here because few sessions need it

            extractor = Extractor(mirrored(extractor.data), str(path), trusted=trusted, device="cpu", threads=threads)
        if extractor.head is None:
            raise FrnError(
                f"{name}: was trained as {extractor.method}, but classes are enrolled by reconstruction. "
                "Use a model trained with --method frn."
            )
        self.name, self.opened = name, extractor
        return {
            "model": request.model,
            "sha256": extractor.plain_sha256,
            "side": extractor.transform.size,
            "grid": list(extractor.grid),
            "d": extractor.shape[1],
            "bytes": len(extractor.data),
            "device": "cpu",  # CUDA takes a second to start
        }
