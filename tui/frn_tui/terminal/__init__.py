"""What the terminal can do, and how it is drawn on."""
