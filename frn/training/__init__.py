"""Training: presets, schedule, run folder and the loop."""
