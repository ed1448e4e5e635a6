"""Decoder that shows feature maps, true and reconstructed, as images (Sec. 4.5)."""
