"""Trained models for other runtimes: a C library without Python, ONNX, and StableHLO."""
