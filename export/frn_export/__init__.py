"""ONNX export. Opset 18, the standard domain alone, one self-contained file, the same bytes each time."""
