"""Ridge-regression reconstruction of feature maps. Only `reconstruction` and `matmul` need torch."""
