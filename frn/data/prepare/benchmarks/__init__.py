"""Benchmarks that `frn data prepare` supports: one file each."""
