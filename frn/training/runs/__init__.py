"""Runs: their options, their folder of checkpoints, and how one is carried out."""
