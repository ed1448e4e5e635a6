"""Client of the engine, and the messages between them."""
