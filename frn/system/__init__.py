"""Files, processors and processes, used by all other packages."""
