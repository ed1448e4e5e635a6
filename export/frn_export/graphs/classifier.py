"""Enrolled classes in ONNX: after feature maps, after prepared images, or in one file that takes an image of any size.

The graphs extend an exported extractor, so they do not need torch.

Shape letters: n images, way classes, M rows of all classes together, m rows of the largest class, r = h w locations,
d channels, S side of the crop.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.inference.unknown.rule import LEAST_DISTANCE, LEAST_ERROR, NEVER, RIVALS, TINY, KnownRule
from frn.ridge.enrolment import Centres, EnrolledClass, JoinedClasses
from frn_export.graphs.builder import FLOAT, STRING, UINT8, GraphBuilder, Shape
from frn_export.graphs.enrolled_head import HeadClasses, write_logits
from frn_export.graphs.prepare import prepare

SCORES_FORMAT, BATCH_FORMAT, CLASSIFIER_FORMAT = "frn-scores", "frn-batch-classifier", "frn-classifier"
MAX_CLASS_BYTES = 1_900_000_000  # largest size of the rows in bytes: an ONNX file has at most 2 GiB, with the network

Classes = Mapping[str, EnrolledClass] | HeadClasses
Outputs = dict[str, tuple[int, Shape]]


def require_text(names: Iterable[str]) -> None:
    """Raise FrnError for class names that are not UTF-8, as folder names may be: graphs and pages contain text."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise FrnError(f"class {name!r}: its name is not valid text (UTF-8). Rename its folder.") from error


def scores_graph(extractor: Extractor, classes: Mapping[str, EnrolledClass], gamma: float) -> onnx.ModelProto:
    """Build the classes alone: `feature_map` (n, r, d) to the outputs of `batch_graph`, without `known`.

    Raises FrnError if there are no classes.
    """
    graph = GraphBuilder("s_")
    outputs = _score(graph, classes, extractor, gamma)
    inputs: Outputs = {"feature_map": (FLOAT, ("n", *extractor.shape))}
    return graph.model(inputs, outputs, _metadata(classes), name="scores", kind=SCORES_FORMAT)


def batch_graph(extractor: Extractor, classes: Classes, *, rule: KnownRule, gamma: float) -> onnx.ModelProto:
    """Build a classifier of prepared images.

    The graph maps `images` float32 (n, 3, S, S) RGB in [0, 1] to `label` (n) of strings, `probability`, `class_error`,
    `explained` (n, way), `known` (n), and `error_map` (n, way, h, w). An image is unknown if its `known` is below the
    threshold in the metadata, `frn.threshold`. Heads other than FRN's have no error map. Raises FrnError if there are
    no classes.
    """
    graph = GraphBuilder("s_")
    graph.include(onnx.load_model_from_string(extractor.data).graph)
    outputs = _score(graph, classes, extractor, gamma, rule)
    side = extractor.transform.size
    inputs: Outputs = {"images": (FLOAT, ("n", 3, side, side))}
    return graph.model(inputs, outputs, _metadata(classes, rule), name="batch_classifier", kind=BATCH_FORMAT)


def classifier_graph(
    features: bytes, classes: Classes, *, rule: KnownRule = NEVER, gamma: float | None = None
) -> onnx.ModelProto:
    """Build `classifier.onnx`: `image` uint8 (height, width, 3) RGB to the outputs of `batch_graph` for this image.

    Args:
        features: bytes of the `features.onnx` that the classes were enrolled with.
        classes: enrolled classes by name, or those of a head other than FRN's.
        rule: rule that decides whether an image is unknown.
        gamma: the temperature chosen with the classes; None uses that of the extractor's head.

    Raises FrnError if the extractor is rejected, there are no classes or too many for a file, or a name is not text.
    """
    require_text(_listed(classes))
    extractor = Extractor(features, "the extractor", device="cpu", threads=1)
    if gamma is None:
        gamma = extractor.head.gamma if extractor.head else 1.0
    graph = GraphBuilder("k_")
    prepare(graph, extractor.transform)
    graph.include(onnx.load_model_from_string(features).graph)
    of_batch = _score(graph, classes, extractor, gamma, rule, prefix="batch_")
    for name in of_batch:
        graph.node("Squeeze", f"batch_{name}", graph.ints(0), output=name)
    outputs: Outputs = {name: (kind, shape[1:]) for name, (kind, shape) in of_batch.items()}
    inputs: Outputs = {"image": (UINT8, ("height", "width", 3))}
    return graph.model(inputs, outputs, _metadata(classes, rule), name="classifier", kind=CLASSIFIER_FORMAT)


def _listed(classes: Classes) -> list[str]:
    return list(classes.pools if isinstance(classes, HeadClasses) else classes)


def _metadata(classes: Classes, rule: KnownRule | None = None) -> dict[str, str]:
    threshold = {"frn.threshold": json.dumps(rule.threshold)} if rule else {}
    return {"frn.classes": json.dumps(_listed(classes), ensure_ascii=False)} | threshold


def _score(
    graph: GraphBuilder,
    classes: Classes,
    extractor: Extractor,
    gamma: float,
    rule: KnownRule | None = None,
    prefix: str = "",
) -> Outputs:
    """Map `feature_map` (n, r, d) to the outputs, and return them; there is no `known` without a rule.

    For heads other than FRN's, the energy of each image is 1 (`inference.scorers`).
    """
    names, (h, w), class_error = _listed(classes), extractor.grid, f"{prefix}class_error"
    outputs: Outputs = {"label": (STRING, ("n",))}
    outputs |= dict.fromkeys(("probability", "class_error", "explained"), (FLOAT, ("n", len(names))))
    if isinstance(classes, HeadClasses):
        more = graph.constant(np.zeros((1, *extractor.shape), np.float32))  # some traced nodes need a photo
        logits = write_logits(graph, classes, graph.node("Concat", "feature_map", more, axis=0))
        logits = graph.node("Slice", logits, graph.ints(0), graph.ints(-1), graph.ints(0))
        distances = ""
        graph.node("Neg", graph.node("LogSoftmax", logits, axis=1), output=class_error)
        size = graph.node("Concat", graph.node("Shape", logits, start=0, end=1), graph.ints(1), axis=0)
        energy = graph.node("Expand", graph.constant(1.0), size)
    else:
        joined = join(classes)
        # Locations in one row: onnxruntime would fuse the product with the Transpose before it, and fails at n = 0.
        locations = graph.node("Reshape", "feature_map", graph.ints(-1, joined.rows.shape[1]))
        seen = graph.node("MatMul", locations, graph.constant(np.ascontiguousarray(joined.rows.T)))
        taken = class_sums(
            graph, joined, graph.node("Reshape", seen, graph.ints(-1, extractor.shape[0], len(joined.rows)))
        )
        length = graph.node("ReduceSumSquare", "feature_map", graph.ints(2), keepdims=1)  # n, r, 1
        error = graph.node("Transpose", graph.node("Sub", length, taken), perm=[0, 2, 1])  # n, way, r
        cells = error
        if extractor.tta == "views":
            weights = extractor.on_grid(np.eye(extractor.shape[0], dtype=np.float32)).reshape(-1, h * w)
            cells = graph.node("MatMul", error, graph.constant(weights))
        graph.node("Reshape", cells, graph.ints(0, len(names), h, w), output=f"{prefix}error_map")
        unequal = any(enrolled.allowance.share for enrolled in classes.values())
        mean = graph.node("ReduceMean", error, graph.ints(2), keepdims=0, output=None if unequal else class_error)
        energy = graph.node("ReduceMean", length, graph.ints(1), keepdims=0)
        if unequal:
            with_allowances(graph, classes, mean, energy, output=class_error)
        logits = graph.node("Mul", class_error, graph.constant(-gamma))
        distances = _distances(graph, classes) if rule and rule.weights else ""
    positive = graph.node("Max", energy, graph.constant(float(np.finfo(np.float32).tiny)))  # n, 1
    share = graph.node("Div", graph.node("Sub", energy, class_error), positive)
    graph.node("Relu", share, output=f"{prefix}explained")  # as `unknown.explained`
    chances = graph.node("Softmax", logits, axis=1, output=f"{prefix}probability")
    best = graph.node("ArgMin", class_error, axis=1, keepdims=0)
    graph.node("Gather", graph.constant(np.array(names, dtype=object)), best, output=f"{prefix}label")
    if rule:
        outputs["known"] = (FLOAT, ("n",))
        known = _write_known(graph, rule, class_error, energy, chances, distances, len(names))
        graph.node("Identity", known, output=f"{prefix}known")
    if not isinstance(classes, HeadClasses):
        outputs["error_map"] = (FLOAT, ("n", len(names), h, w))
    return outputs


def join(classes: Mapping[str, EnrolledClass]) -> JoinedClasses:
    """Join all classes' rows. Raises FrnError if there are no classes, or they do not fit in a file."""
    if not classes:
        raise FrnError("a classifier needs at least one class")
    if (size := sum(enrolled.rows.nbytes for enrolled in classes.values())) > MAX_CLASS_BYTES:
        raise FrnError(
            f"the {len(classes):,} classes take {size / 1e9:.1f} GB, but an ONNX file can hold only 2 GB. Export fewer "
            "classes, or fewer photos of each; `frn classify` is limited only by memory."
        )
    return JoinedClasses.of(classes.values())


def class_sums(graph: GraphBuilder, classes: JoinedClasses, products: str) -> str:
    """Sum signed squares of products (n, r, M) with all rows by class, (n, r, way)."""
    squares = graph.node("Mul", products, products)
    if (classes.signs < 0).any():
        squares = graph.node("Mul", squares, graph.constant(classes.signs))
    total, numbers = len(classes.signs), np.arange(classes.sizes.max())
    rows = np.where(numbers < classes.sizes[:, None], classes.starts[:, None] + numbers, total)  # way, m
    if total in rows:  # smaller classes are padded with a zero row after all other rows
        squares = graph.node("Pad", squares, graph.ints(0, 0, 0, 0, 0, 1))
    gathered = graph.node("Gather", squares, graph.constant(rows.astype(np.int64)), axis=2)
    return graph.node("ReduceSum", gathered, graph.ints(3), keepdims=0)


def with_allowances(
    graph: GraphBuilder,
    classes: Mapping[str, EnrolledClass],
    errors: str,
    energies: str,
    axes: Sequence[int] = (),
    output: str | None = None,
) -> str:
    """Add allowances to errors (n, way, ...) of photos or of windows, whose `axes` are (1, 1); see `ClassScorer`."""
    allowances = [enrolled.allowance for enrolled in classes.values()]
    shares = np.array([each.share for each in allowances], np.float32).reshape(-1, *axes)
    if not shares.any():
        return errors
    usual = graph.node("Mul", energies, graph.constant(allowances[0].usual))
    excess = graph.node("Relu", graph.node("Sub", errors, usual))
    return graph.node("Add", errors, graph.node("Mul", excess, graph.constant(shares)), output=output)


def _distances(graph: GraphBuilder, classes: Mapping[str, EnrolledClass]) -> str:
    """Return the distances (n, way) from the mean location to the classes, as `Centres.distance` does."""
    centres = Centres.of(classes.values())
    mean = graph.node("ReduceMean", "feature_map", graph.ints(1), keepdims=0)
    centred = graph.node("Sub", mean, graph.constant(centres.origin.astype(np.float32)))
    products = graph.node("MatMul", centred, graph.constant((-2 * centres.offsets.T).astype(np.float32)))
    beside = graph.node("Add", products, graph.constant(np.square(centres.offsets).sum(1).astype(np.float32)))
    square = graph.node("ReduceSumSquare", centred, graph.ints(1), keepdims=1)
    return graph.node("Div", graph.node("Add", square, beside), graph.constant(centres.scale))


def _write_known(
    graph: GraphBuilder, rule: KnownRule, class_error: str, energy: str, chances: str, distances: str, way: int
) -> str:
    """Add `KnownRule.known` (n) from errors, probabilities and distances (n, way) and energies (n, 1)."""
    if not rule.weights:
        size = graph.node("Shape", class_error, start=0, end=1)
        return graph.node("Expand", graph.constant(float("nan")), size)

    def log(value: str) -> str:
        return graph.node("Log", value)

    def part(values: str, start: int, end: int) -> str:
        return graph.node("Slice", values, graph.ints(start), graph.ints(end), graph.ints(1))

    tiny, count = graph.constant(TINY), min(RIVALS + 1, way)
    shares = graph.node("Div", graph.node("Add", class_error, tiny), graph.node("Add", energy, tiny))
    shares = graph.node("Max", shares, graph.constant(LEAST_ERROR))
    least, _ = graph.outputs("TopK", 2, shares, graph.ints(count), axis=1, largest=0)
    best = log(part(least, 0, 1))
    terms = {0: graph.node("Neg", best)}
    if way > 1:
        rivals = graph.node("ReduceMean", part(least, 1, count), graph.ints(1), keepdims=1)
        terms |= {1: graph.node("Sub", log(rivals), best), 2: graph.node("Sub", log(part(least, 1, 2)), best)}
        terms[3] = log(graph.node("ReduceMax", chances, graph.ints(1), keepdims=1))
    if distances:
        clipped = graph.node("Clip", distances, graph.constant(LEAST_DISTANCE), graph.constant(1 / LEAST_DISTANCE))
        near = graph.node("Neg", log(clipped))
        terms[4] = graph.node("ReduceMax", near, graph.ints(1), keepdims=1)
        terms[5] = graph.node("GatherElements", near, graph.node("ArgMin", class_error, axis=1, keepdims=1), axis=1)
    weights = np.array([[rule.weights[place]] for place in terms], np.float32)
    score = graph.node("MatMul", graph.node("Concat", *terms.values(), axis=1), graph.constant(weights))
    score = graph.node("Add", score, graph.constant(rule.bias))
    if rule.offsets:  # as `unknown.mean_offsets`
        roots = graph.node("Sqrt", chances)
        total = graph.node("ReduceSum", roots, graph.ints(1), keepdims=1)
        added = graph.node("MatMul", roots, graph.constant(np.array([rule.offsets], np.float32).T))
        score = graph.node("Add", score, graph.node("Div", added, total))
    chance = graph.node("Sigmoid", graph.node("Reshape", score, graph.ints(-1)))
    inner = graph.node("Mul", chance, graph.constant(1 - 2 * rule.margin))
    return graph.node("Add", inner, graph.constant(rule.margin))
