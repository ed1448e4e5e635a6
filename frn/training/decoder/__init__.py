"""What reconstructions look like: a decoder makes images of feature maps, true and rebuilt (Sec. 4.5)."""
