"""Photos to feature maps, without torch."""
