"""ONNX graphs, built operator by operator."""
