"""Training: presets, schedule, run folder and training loop."""
