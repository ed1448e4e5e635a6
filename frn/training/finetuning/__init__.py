"""Fine-tuning on the user's photos."""
