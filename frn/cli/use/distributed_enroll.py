"""Classes enrolled by several processes: each of them embeds a share of the photos, rank 0 makes the classes."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from frn._version import __version__
from frn.errors import FrnError
from frn.inference.classifier import Classifier
from frn.system.distributed import ProcessGroup


def enroll_together(
    classifier: Classifier, classes: Mapping[str, Sequence[Path]], ranks: ProcessGroup
) -> list[FrnError]:
    """As `Classifier.enroll`; ranks other than the first stay without classes.

    FrnError if they see other files or another model as well.
    """
    files = [path for paths in classes.values() for path in paths]
    ranks.assert_same([__version__, classifier.extractor.sha256, list(classes), [str(path) for path in files]])
    read = partial(ranks.each, work=partial(classifier.extractor.read, store=classifier.store))
    if ranks.is_main:
        return classifier.enroll(classes, read=read)
    for _ in read(files):
        pass
    return []
