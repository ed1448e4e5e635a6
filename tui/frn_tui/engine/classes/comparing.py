"""Comparison of models on the same classes."""

import math
from pathlib import Path

from frn_tui.client.protocol import Compared, CompareModels, ModelScore
from frn_tui.engine.worker_queues import Job


def compare(request: CompareModels, job: Job) -> Compared:
    """Compare models by leave-one-out, one after the other. Raises FrnError if no class has two photos."""
    # imported here because few sessions compare models
    from frn.estimator.comparison import compare_models, disagreements

    classes = {name: [Path(path) for path in paths] for name, paths in request.classes.items()}
    found = []
    for each in compare_models(classes, request.models, "cpu"):
        found.append(each)
        job.check()
        job.progress(len(found), len(request.models))
    scores = [
        ModelScore(
            model=each.model,
            right=each.right,
            photos=each.photos,
            interval=each.interval,
            auroc=None if math.isnan(each.auroc) else each.auroc,
            milliseconds=each.milliseconds,
            bytes=each.bytes,
        )
        for each in sorted(found, key=lambda each: each.right, reverse=True)
    ]
    return {"scores": scores, "differing": [str(path) for path in disagreements(found)]}
