"""Access to files, processors and processes, used by all other packages."""
