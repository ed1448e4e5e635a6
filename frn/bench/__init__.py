"""Speed, beside the plain formulation, in one run."""
