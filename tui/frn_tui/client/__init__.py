"""The app's end of the pipe to the engine, and what crosses it."""
