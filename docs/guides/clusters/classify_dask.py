"""Classify an archive on a Dask cluster: `python classify_dask.py CLASSES PHOTOS OUT WORKERS`."""

import json
import sys
from pathlib import Path

from dask.distributed import Client, as_completed

from frn import FewShotClassifier


def enroll(classes: str) -> FewShotClassifier:
    """Enroll the classes on one worker; the other workers get a copy."""
    return FewShotClassifier().fit({c.name: sorted(c.iterdir()) for c in Path(classes).iterdir()})


def classify(classifier: FewShotClassifier, photos: list[str]) -> list[dict[str, object]]:
    """Classify a batch of photos on a worker; a photo that cannot be read gets an error."""
    return [
        {"image": answer.photo, "error": str(answer.error)}
        if answer.error
        else {"image": answer.photo, "label": str(answer.label), "probability": float(answer.probability)}
        for answer in classifier.answers(photos)
    ]


if __name__ == "__main__":
    classes, photos, out, workers = sys.argv[1:]
    images = [str(path) for path in sorted(Path(photos).rglob("*.jpg"))]
    with Client(n_workers=int(workers), threads_per_worker=1) as client, Path(out).open("w") as results:
        classifier = client.submit(enroll, classes)
        batches = [images[start : start + 64] for start in range(0, len(images), 64)]
        for done in as_completed([client.submit(classify, classifier, batch, retries=3) for batch in batches]):
            results.writelines(json.dumps(answer) + "\n" for answer in done.result())
