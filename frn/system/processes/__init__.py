"""Between processes: messages and locks, and child processes that may take only so much time and memory."""
