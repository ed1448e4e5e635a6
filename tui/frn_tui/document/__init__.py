"""What is open, and what can be done with it."""
