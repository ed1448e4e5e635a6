"""What every command shares."""
