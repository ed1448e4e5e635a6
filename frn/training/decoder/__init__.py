"""What reconstructions look like: a decoder makes images of feature maps, true and reconstructed (Sec. 4.5)."""
