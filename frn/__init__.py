"""Few-shot image classification with Feature Map Reconstruction Networks (FRN, CVPR 2021)."""

__version__ = "0.1.0"
