"""Messages and locks between processes, and child processes with limited time and memory."""
