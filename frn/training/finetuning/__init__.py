"""Fine-tuning on own photos."""
