"""Files, processors and processes: what the rest stands on."""
