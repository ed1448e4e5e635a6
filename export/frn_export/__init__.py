"""ONNX export of extractors, the closed-form head and whole classifiers."""
