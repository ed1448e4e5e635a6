"""What the paper's tables quote of other papers, by table: label, network, 1-shot, 5-shot; in percent, as printed.

Their training differs: pre-training, larger images or networks, distillation, fine-tuning on the supports. The paper
marks which; see there.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quoted:
    """A line of a table that nobody trains here."""

    label: str
    network: str
    one_shot: str
    five_shot: str


def lines(text: str) -> tuple[Quoted, ...]:
    """Lines of fields between bars."""
    return tuple(Quoted(*(field.strip() for field in line.split("|"))) for line in text.strip().splitlines())


QUOTED: dict[str, tuple[Quoted, ...]] = {
    "cub-cropped": lines("""
        MatchNet | Conv-4 | 67.73 | 79.00
        ProtoNet (FEAT, DeepEMD) | Conv-4 | 63.73 | 81.50
        Hyperbolic | Conv-4 | 64.02 | 82.53
        FEAT | Conv-4 | 68.87 | 82.90
        MatchNet | ResNet-12 | 71.87 | 85.08
        ProtoNet (FEAT, DeepEMD) | ResNet-12 | 66.09 | 82.50
        DeepEMD | ResNet-12 | 75.65 | 88.69
    """),
    "cub-raw": lines("""
        Baseline | ResNet-18 | 65.51 ± 0.87 | 82.85 ± 0.55
        Baseline++ | ResNet-18 | 67.02 ± 0.90 | 83.58 ± 0.54
        MatchNet | ResNet-18 | 73.49 ± 0.89 | 84.45 ± 0.58
        ProtoNet | ResNet-18 | 72.99 ± 0.88 | 86.64 ± 0.51
        MAML | ResNet-18 | 68.42 ± 1.07 | 83.47 ± 0.62
        RelationNet | ResNet-18 | 68.58 ± 0.94 | 84.05 ± 0.56
        S2M2 | ResNet-18 | 71.43 ± 0.28 | 85.55 ± 0.52
        Neg-Cosine | ResNet-18 | 72.66 ± 0.85 | 89.40 ± 0.43
        Afrasiyabi et al. | ResNet-18 | 74.22 ± 1.09 | 88.65 ± 0.55
    """),
    "imagenet": lines("""
        MatchNet, mini-ImageNet | ResNet-12 | 65.64 ± 0.20 | 78.72 ± 0.15
        ProtoNet, mini-ImageNet | ResNet-12 | 62.39 ± 0.21 | 80.53 ± 0.14
        MetaOptNet, mini-ImageNet | ResNet-12 | 62.64 ± 0.61 | 78.63 ± 0.46
        Robust 20-distill, mini-ImageNet | ResNet-18 | 63.06 ± 0.61 | 80.63 ± 0.42
        SimpleShot, mini-ImageNet | ResNet-18 | 62.85 ± 0.20 | 80.02 ± 0.14
        CAN, mini-ImageNet | ResNet-12 | 63.85 ± 0.48 | 79.44 ± 0.34
        S2M2, mini-ImageNet | ResNet-18 | 64.06 ± 0.18 | 80.58 ± 0.12
        Meta-Baseline, mini-ImageNet | ResNet-12 | 63.17 ± 0.23 | 79.26 ± 0.17
        GNN+FT, mini-ImageNet | ResNet-10 | 66.32 ± 0.80 | 81.98 ± 0.55
        DSN, mini-ImageNet | ResNet-12 | 62.64 ± 0.66 | 78.83 ± 0.45
        FEAT, mini-ImageNet | ResNet-12 | 66.78 ± 0.20 | 82.05 ± 0.14
        DeepEMD, mini-ImageNet | ResNet-12 | 65.91 ± 0.82 | 82.41 ± 0.56
        Neg-Cosine, mini-ImageNet | ResNet-12 | 63.85 ± 0.81 | 81.57 ± 0.56
        Afrasiyabi et al., mini-ImageNet | ResNet-18 | 59.88 ± 0.67 | 80.35 ± 0.73
        E3BM, mini-ImageNet | ResNet-12 | 64.09 ± 0.37 | 80.29 ± 0.25
        RFS-simple, mini-ImageNet | ResNet-12 | 62.02 ± 0.63 | 79.64 ± 0.44
        RFS-distill, mini-ImageNet | ResNet-12 | 64.82 ± 0.60 | 82.14 ± 0.43
        MatchNet, tiered-ImageNet | ResNet-12 | 68.50 ± 0.92 | 80.60 ± 0.71
        ProtoNet, tiered-ImageNet | ResNet-12 | 68.23 ± 0.23 | 84.03 ± 0.16
        MetaOptNet, tiered-ImageNet | ResNet-12 | 65.99 ± 0.72 | 81.56 ± 0.53
        Robust 20-distill, tiered-ImageNet | ResNet-18 | 65.43 ± 0.21 | 70.44 ± 0.32
        SimpleShot, tiered-ImageNet | ResNet-18 | 69.09 ± 0.22 | 84.58 ± 0.16
        CAN, tiered-ImageNet | ResNet-12 | 69.89 ± 0.51 | 84.23 ± 0.37
        Meta-Baseline, tiered-ImageNet | ResNet-12 | 68.62 ± 0.27 | 83.29 ± 0.18
        DSN, tiered-ImageNet | ResNet-12 | 66.22 ± 0.75 | 82.79 ± 0.48
        FEAT, tiered-ImageNet | ResNet-12 | 70.80 ± 0.23 | 84.79 ± 0.16
        DeepEMD, tiered-ImageNet | ResNet-12 | 71.16 ± 0.87 | 86.03 ± 0.58
        Afrasiyabi et al., tiered-ImageNet | ResNet-18 | 69.29 ± 0.56 | 85.97 ± 0.49
        E3BM, tiered-ImageNet | ResNet-12 | 71.34 ± 0.41 | 85.82 ± 0.29
        RFS-simple, tiered-ImageNet | ResNet-12 | 69.74 ± 0.72 | 84.41 ± 0.55
        RFS-distill, tiered-ImageNet | ResNet-12 | 71.52 ± 0.69 | 86.03 ± 0.49
    """),
    "cross-domain": lines("""
        MAML | ResNet-18 | | 51.34 ± 0.72
        ProtoNet | ResNet-18 | | 62.02 ± 0.70
        Baseline | ResNet-18 | | 65.57 ± 0.70
        Baseline++ | ResNet-18 | | 62.04 ± 0.76
        MetaOptNet | ResNet-12 | 44.79 ± 0.75 | 64.98 ± 0.68
        Diverse 20-full | ResNet-18 | | 66.17 ± 0.55
        SimpleShot | ResNet-18 | 48.56 | 65.63
        MatchNet+FT | ResNet-10 | 36.61 ± 0.53 | 55.23 ± 0.83
        RelationNet+FT | ResNet-10 | 44.07 ± 0.77 | 59.46 ± 0.71
        GNN+FT | ResNet-10 | 47.47 ± 0.75 | 66.98 ± 0.68
        Neg-Softmax | ResNet-18 | | 69.30 ± 0.73
        Afrasiyabi et al. | ResNet-18 | 46.85 ± 0.75 | 70.37 ± 1.02
    """),
    "training-shot": lines("""
        best baseline, CUB cropped | Conv-4 | 69.64 ± 0.23 |
        best baseline, Aircraft | Conv-4 | 49.67 ± 0.22 |
        best baseline, meta-iNat | Conv-4 | 60.03 ± 0.23 |
        best baseline, tiered meta-iNat | Conv-4 | 36.83 ± 0.18 |
        best baseline, CUB cropped | ResNet-12 | 80.80 ± 0.20 |
        best baseline, CUB raw | ResNet-12 | 79.96 ± 0.21 |
        best baseline, Aircraft | ResNet-12 | 68.16 ± 0.23 |
        best baseline, mini-ImageNet | ResNet-12 | 66.78 ± 0.20 |
        best baseline, tiered-ImageNet | ResNet-12 | 71.52 ± 0.69 |
    """),
    "class-split": lines("""
        Baseline++, Chen et al. | ResNet-34 | 68.00 ± 0.83 | 84.50 ± 0.51
        ProtoNet, Chen et al. | ResNet-34 | 72.94 ± 0.91 | 87.86 ± 0.47
        S2M2, Chen et al. | WRN-28-10 | 80.68 ± 0.81 | 90.85 ± 0.44
        Neg-Cosine, Chen et al. | ResNet-18 | 72.66 ± 0.85 | 89.40 ± 0.43
    """),
}
