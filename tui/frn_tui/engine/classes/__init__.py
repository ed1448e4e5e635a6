"""Classes in the engine: embedded, enrolled, scored."""
