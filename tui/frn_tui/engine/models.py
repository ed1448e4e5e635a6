"""Open model: an exported feature extractor in onnxruntime."""

from collections.abc import Iterable

from frn.errors import FrnError
from frn.inference.extractor import Extractor
from frn.inference.feature_cache import Maps
from frn.models.zoo import require_exported, resolve
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import tune_by_leave_one_out
from frn.system.hardware import cores
from frn_tui.client.protocol import MIRROR, Model, OpenModel
from frn_tui.engine.worker_queues import Job


class LoadedModel:
    """A model and its name."""

    def __init__(self, name: str, extractor: Extractor) -> None:
        """Reject a model that was not trained to reconstruct."""
        if extractor.head is None:
            raise FrnError(
                f"{name}: was trained as {extractor.method}, but classes are enrolled by reconstruction. "
                "Use a model trained with --method frn."
            )
        self.name = name
        self.extractor = extractor

    def choose_head(self, pools: Iterable[Maps]) -> HeadParameters:
        """Return alpha, beta and gamma for classes of these examples, (k, r, d) each."""
        return tune_by_leave_one_out(list(pools), self.extractor.prior)


class Models:
    """Opens models, one at a time."""

    def __init__(self) -> None:
        self.current: LoadedModel | None = None

    @property
    def model(self) -> LoadedModel:
        """Return the open model. Raises FrnError if there is no open model."""
        if self.current is None:
            raise FrnError("no model is loaded yet")
        return self.current

    def open(self, request: OpenModel, job: Job) -> Model:
        """Open a model in place of the current one, which stays open if the new one is rejected."""
        name = request.model.removesuffix(MIRROR)
        path, trusted = require_exported(name), resolve(name).shipped
        threads = max(1, cores() - 1)  # leave one core for the app
        extractor = Extractor.open(path, trusted=trusted, device="cpu", threads=threads)
        if name != request.model:
            from frn_export.graphs.mirror import mirrored  # imported here because few sessions need it

            extractor = Extractor(mirrored(extractor.data), str(path), trusted=trusted, device="cpu", threads=threads)
        self.current = LoadedModel(name, extractor)
        return {
            "model": request.model,
            "sha256": extractor.plain_sha256,
            "side": extractor.transform.size,
            "grid": list(extractor.grid),
            "d": extractor.shape[1],
            "bytes": len(extractor.data),
            "device": "cpu",  # CUDA takes a second to start
        }
