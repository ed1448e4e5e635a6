"""Export on demand, as bytes of ONNX files; the only lazy import of `frn_export` from the estimator."""

from pathlib import Path

from frn.errors import FrnError
from frn.inference.any_head import OtherHeadClassifier
from frn.inference.classifier import Classifier
from frn.system.extras import needs_torch


def features_file(weights: Path) -> bytes:
    """Return `features.onnx` for a model that has not been exported yet.

    Raises FrnError if the model cannot be read, or torch is not installed.
    """
    try:
        from frn_export.graphs.backbone import features_graph

        from frn.models.model import load_model
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FrnError(needs_torch(f"{weights}: has not been exported yet, and exporting it")) from error
    return features_graph(load_model(weights)).SerializeToString(deterministic=True)


def mirrored_file(features: bytes) -> bytes:
    """Return a `features.onnx` that also uses mirror images."""
    from frn_export.graphs.mirror import mirrored

    return mirrored(features)


def classifier_file(classifier: Classifier) -> bytes:
    """Return `classifier.onnx` for enrolled classes. Raises FrnError without classes or if the head has no export."""
    from frn_export.graphs.classifier import classifier_graph
    from frn_export.graphs.enrolled_head import enrolled

    if isinstance(classifier, OtherHeadClassifier) and classifier.graph is None:
        from frn_export.parity import verified_head

        from frn.models.model import load_model  # the head already runs in torch

        classifier.graph, _ = verified_head(load_model(classifier.extractor.where))
    graph = classifier_graph(
        classifier.extractor.data, enrolled(classifier), rule=classifier.rule, gamma=classifier.head.gamma
    )
    return graph.SerializeToString(deterministic=True)
