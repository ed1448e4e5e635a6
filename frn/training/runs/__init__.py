"""Training runs: their options, folder of checkpoints, and execution."""
