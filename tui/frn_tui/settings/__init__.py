"""What is remembered from one start to the next."""
