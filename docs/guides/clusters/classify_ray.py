"""Classify an archive on a Ray cluster: `python classify_ray.py CLASSES PHOTOS OUT WORKERS`."""

import sys
from pathlib import Path
from typing import Any

import ray

from frn import FewShotClassifier


class Classify:
    """A Ray worker, which enrolls the classes only once."""

    def __init__(self, classes: str) -> None:
        self.classifier = FewShotClassifier().fit({c.name: sorted(c.iterdir()) for c in Path(classes).iterdir()})

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Classify a batch of photos; a photo that cannot be read gets an error."""
        found = list(self.classifier.answers(batch["image"]))
        batch["label"] = ["" if answer.error else str(answer.label) for answer in found]
        batch["probability"] = [answer.probability for answer in found]
        batch["error"] = [str(answer.error or "") for answer in found]
        return batch


if __name__ == "__main__":
    classes, photos, out, workers = sys.argv[1:]
    images = [{"image": str(path)} for path in sorted(Path(photos).rglob("*.jpg"))]
    rows = ray.data.from_items(images, override_num_blocks=1 + len(images) // 64)
    rows.map_batches(Classify, fn_constructor_args=[classes], concurrency=int(workers), batch_size=64).write_json(out)
