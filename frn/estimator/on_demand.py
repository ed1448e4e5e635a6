"""Export on demand: the one lazy door from the estimator to `frn_export`, as bytes of ONNX files."""

from pathlib import Path

from frn.errors import FrnError
from frn.inference.any_head import OtherHeadClassifier
from frn.inference.classifier import Classifier
from frn.system.extras import needs_torch


def features_file(weights: Path) -> bytes:
    """`features.onnx` of a model that is not exported yet. FrnError if it cannot be read, or torch is not installed."""
    try:
        from frn_export.graphs.backbone import features_graph

        from frn.models.model import load_model
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise FrnError(needs_torch(f"{weights}: is not exported yet, and exporting it")) from error
    return features_graph(load_model(weights)).SerializeToString(deterministic=True)


def mirrored_file(features: bytes) -> bytes:
    """A `features.onnx` that looks at mirror images as well."""
    from frn_export.graphs.mirror import mirrored

    return mirrored(features)


def classifier_file(classifier: Classifier) -> bytes:
    """`classifier.onnx` of enrolled classes. FrnError if there is no class yet, or their head cannot be exported."""
    from frn_export.graphs.classifier import classifier_graph
    from frn_export.graphs.enrolled_head import enrolled

    if isinstance(classifier, OtherHeadClassifier) and classifier.graph is None:
        from frn_export.parity import verified_head

        from frn.models.model import load_model  # the head is in torch already

        classifier.graph, _ = verified_head(load_model(classifier.extractor.where))
    graph = classifier_graph(
        classifier.extractor.data, enrolled(classifier), rule=classifier.rule, gamma=classifier.head.gamma
    )
    return graph.SerializeToString(deterministic=True)
