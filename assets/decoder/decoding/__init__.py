"""An image decoder, which turns feature maps and their reconstructions back into images (Sec. 4.5)."""
