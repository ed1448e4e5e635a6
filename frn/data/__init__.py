"""Class folders, their decoded pixels, and the augmentation of pixels."""
