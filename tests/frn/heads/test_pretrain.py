"""The head over all classes at once."""

from pathlib import Path

import numpy as np
import torch

from frn.heads.frn import FRNHead
from frn.heads.pretrain import DummyMapHead
from frn.images.transforms import EvaluationTransform
from frn.models.model import import_reference


def test_dummy_map_reconstructs_like_a_pool_of_one_image() -> None:
    """Sec. 3.6: FRN pre-training is FRN with learned supports and alpha = beta = 0."""
    torch.manual_seed(0)
    head, pretraining = FRNHead().double(), DummyMapHead(7, 4, 12).double()
    maps = torch.randn(5, 4, 12, dtype=torch.float64)
    torch.testing.assert_close(pretraining(maps, head), head(pretraining.dummy_maps[:, None], maps))


def test_log_probabilities_equal_the_recorded_ones(golden: Path) -> None:
    model = import_reference(golden / "pretrain-conv4.pth", transform=EvaluationTransform(size=84))
    state = torch.load(golden / "pretrain-conv4.pth", weights_only=True)
    arrays = np.load(golden / "pretrain-conv4.npz")
    pretraining = DummyMapHead(*state["cat_mat"].shape)
    pretraining.load_state_dict({"dummy_maps": state["cat_mat"]})
    assert isinstance(model.head, FRNHead)
    with torch.no_grad():
        maps = model.backbone(torch.from_numpy(arrays["images"])).flatten(2).mT  # recorded images are normalised
        ours = pretraining(maps, model.head).log_softmax(1).numpy()
    expected = arrays["log_probability"]
    assert np.abs(ours - expected).max() <= 1e-5 * np.abs(expected).max()
