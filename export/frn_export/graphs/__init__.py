"""The ONNX graphs, written operator by operator."""
