"""Reduction of a location's squared length by each class, from products with all classes' rows, in a graph.

Shape letters: way classes, M rows of all classes together, m rows of the largest class.
"""

from collections.abc import Mapping

import numpy as np

from frn.errors import FrnError
from frn.ridge.enrolment import EnrolledClass, JoinedClasses
from frn_export.graphs.builder import GraphBuilder

MATRIX = 64
"""Up to this many classes, the per-class sums are computed as one product with a (way, M) sign matrix.

For a thousand classes the matrix would dominate the time and the file size.
"""
MAX_CLASS_BYTES = 1_900_000_000
"""Maximum size of the rows in bytes: an ONNX file has at most 2 GiB, including the network."""


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


def class_sums(graph: GraphBuilder, classes: JoinedClasses, products: str, axis: int) -> str:
    """Sum signed squares of products with all rows by class: M becomes way at axis 0 of 2, or 2 of 3."""
    squares, way = graph.node("Mul", products, products), len(classes.sizes)
    if way <= MATRIX:
        signs = np.repeat(np.eye(way, dtype=np.float32), classes.sizes, axis=1) * classes.signs
        if axis == 0:
            return graph.node("MatMul", graph.constant(signs), squares)
        return graph.node("MatMul", squares, graph.constant(np.ascontiguousarray(signs.T)))
    if (classes.signs < 0).any():
        signs = classes.signs if axis else classes.signs[:, None]
        squares = graph.node("Mul", squares, graph.constant(signs))
    most, total = classes.sizes.max(), len(classes.signs)
    numbers = np.arange(most)
    rows = np.where(numbers < classes.sizes[:, None], classes.starts[:, None] + numbers, total)  # way, m
    if total in rows:  # smaller classes are padded with a zero row after all other rows
        squares = graph.node("Pad", squares, graph.ints(*([0, 0, 1, 0] if axis == 0 else [0, 0, 0, 0, 0, 1])))
    gathered = graph.node("Gather", squares, graph.constant(rows.astype(np.int64)), axis=axis)
    return graph.node("ReduceSum", gathered, graph.ints(axis + 1), keepdims=0)
