"""Omniglot (Lake et al., Science 2015): 20 drawings of each character; a class is an alphabet's character."""

from collections.abc import Sequence
from pathlib import Path

from frn.data.prepare.sources import Item, find_images
from frn.errors import FrnError


def items(sources: Sequence[Path]) -> list[Item]:
    """Assign characters to splits by alphabet.

    With `images_evaluation` its alphabets are the test split (Lake's protocol) and a fifth of the background's
    alphabets validates. Without it (the small sets) alphabets are divided 3 : 1 : 1, in order of their names.

    Args:
        sources: the official `images_*.zip` archives, or folders unpacked from them.

    Raises:
        FrnError: if there are fewer than three alphabets.
    """
    found = [image for image in find_images(sources) if len(image.parts) >= 3]
    is_test = {image.parts[-3]: any("evaluation" in part for part in image.parts[:-3]) for image in found}
    background = sorted(alphabet for alphabet, test in is_test.items() if not test)
    split_of = {alphabet: "test" for alphabet, test in is_test.items() if test}
    fifth = max(1, len(background) // 5)
    held_out = ["val"] * fifth if split_of else ["val"] * fifth + ["test"] * fifth
    if len(background) <= len(held_out):
        raise FrnError(
            f"{', '.join(map(str, sources))}: only {len(background)} alphabets to train and validate on "
            "(expected ALPHABET/characterNN/*.png)"
        )
    training = len(background) - len(held_out)
    split_of |= dict(zip(background, ["train"] * training + held_out, strict=True))
    return [
        Item(split_of[image.parts[-3]], f"{image.parts[-3]} {image.parts[-2]}", image.parts[-1], image.size, image.read)
        for image in found
    ]
