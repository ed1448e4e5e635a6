"""What opens over the workspace. Each dialogue gives back a value, or None if it was left."""
