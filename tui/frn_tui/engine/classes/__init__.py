"""Classes in the engine: embedding, enrollment, scoring."""
