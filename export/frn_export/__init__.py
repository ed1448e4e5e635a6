"""ONNX export: opset 18, standard domain only, one self-contained file, deterministic bytes."""
