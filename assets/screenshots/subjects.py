"""Draw the subjects that are found in three rendered shells (saved beside this file).

python assets/screenshots/subjects.py
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from frn.estimator.loading import load_classifier
from frn.images.boxes import split_box
from frn.images.opening import open_image
from frn.inference.classifier import Prediction
from frn.inference.find.finder import Sought
from frn.inference.scorers import Reconstruction

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples"
PHOTOS = ("banded moon snail 8", "nautilus 6", "cone shell 8")
SIZE, GAP, LINE = (288, 216), 12, 36


def main() -> None:
    """Draw each photo with the frame of its subject, and the labels of the whole photo and of the subject."""
    classifier, _ = load_classifier(SAMPLES / "shells")
    assert isinstance(classifier.scorer, Reconstruction)  # of the default model
    sought = Sought(classifier.scorer.joined, np.zeros(classifier.extractor.shape[1]))  # without boxes
    image = Image.new("RGB", (len(PHOTOS) * (SIZE[0] + GAP) - GAP, SIZE[1] + LINE), "white")
    draw = ImageDraw.Draw(image)
    for number, name in enumerate(PHOTOS):
        path, left = SAMPLES / "queries" / f"{name}.jpg", number * (SIZE[0] + GAP)
        subject = classifier.finder.box(path, sought)
        box = split_box(subject)[1]
        assert box is not None  # a part of each of these photos
        image.paste(open_image(path), (left, 0))
        edges = left + box.left, box.top, left + box.left + box.width, box.top + box.height
        draw.rectangle(edges, outline="white", width=5)
        draw.rectangle(edges, outline="black", width=2)
        labels = [answer.label for _, answer in classifier.classify([path, subject]) if isinstance(answer, Prediction)]
        draw.text((left, SIZE[1] + 4), "whole photo: {}\nframe: {}".format(*labels), "black")
    image.quantize(128, dither=Image.Dither.NONE).save(HERE / "subjects.png", optimize=True)


if __name__ == "__main__":
    main()
