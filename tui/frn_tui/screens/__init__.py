"""What opens over the workspace. Each dialogue gives back a value, or None where it was left."""
