"""Examples that are not used because they are near copies of others. Only this part of a document needs numpy."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from frn.images.near_copies import LEAST_SAVED, Looks, copy_sets, same_photos
from frn.projects.session import State


class KnownCopies:
    """The near copies among examples that were compared, so that an edit compares only new photos."""

    def __init__(self) -> None:
        self.sets: dict[tuple[str, ...], list[list[int]]] = {}
        """Places of near copies within classes, by the keys of their examples."""
        self._compared: list[tuple[list[str], Looks]] = []
        self._pairs: set[tuple[str, str]] = set()

    def pairs(self, looks: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
        """Yield the keys of photos that show the same, in the order of `looks`."""
        known = {key for keys, _ in self._compared for key in keys}
        if fresh := [key for key in looks if key not in known]:
            self._compared.append((fresh, new := Looks([looks[key] for key in fresh])))
            for keys, others in self._compared:
                self._pairs.update((fresh[one], keys[other]) for one, other in same_photos(new, others))
        place = {key: at for at, key in enumerate(looks)}
        pairs = {
            tuple(sorted((place[one], place[other]))) for one, other in self._pairs if {one, other} <= place.keys()
        }
        keys = list(looks)
        yield from ((keys[one], keys[other]) for one, other in sorted(pairs))


def find_copies(state: State, looks: Mapping[str, bytes], known: KnownCopies | None = None) -> dict[str, str]:
    """Return the keys of examples that are not used, each with the key of an example that shows the same photo.

    Of near copies in one class, the first is used; of the same photo in two classes, also if it is cropped or mirrored,
    none. `looks` are those of `near_copies`, by key. Photos that are `known` are not compared again, and others are
    added.
    """
    holders = {key: entry.id for key, (entry, _) in state.holders().items() if key in looks}
    copies, elsewhere, known = dict[str, str](), dict[str, str](), known or KnownCopies()
    for one, other in known.pairs({key: looks[key] for key in holders}):
        if holders[one] != holders[other]:
            elsewhere.setdefault(one, other)
            elsewhere.setdefault(other, one)
    sets = {}
    for entry in state.classes:
        examples = tuple(support.key for support in entry.supports if support.key in looks)
        if (alike := known.sets.get(examples)) is None:
            alike = (
                copy_sets([looks[key] for key in examples], LEAST_SAVED)
                if len(examples) > 1
                else [[0]][: len(examples)]
            )
        sets[examples] = alike
        for places in alike:
            first, *others = same = [examples[place] for place in places]
            if twin := next((elsewhere[key] for key in same if key in elsewhere), None):
                copies |= {key: elsewhere.get(key, twin) for key in same}
            else:
                copies |= dict.fromkeys(others, first)
    known.sets = sets
    return copies


def without_copies(state: State, copies: Mapping[str, str]) -> State:
    """Return a state without the examples that `find_copies` returns; a class may lose all."""
    classes = [
        replace(entry, supports=tuple(support for support in entry.supports if support.key not in copies))
        for entry in state.classes
    ]
    return replace(state, classes=tuple(classes))
