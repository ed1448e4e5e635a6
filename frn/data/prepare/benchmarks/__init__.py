"""The benchmarks that `frn data prepare` makes: one file each."""
