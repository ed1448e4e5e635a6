"""EpisodicObjective training: presets, schedule, run folder and the loop."""
