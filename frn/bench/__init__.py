"""Speed and memory, beside the plain formulation, in one run."""
