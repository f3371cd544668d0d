"""Versions as files that other programs load: one file a format, each with its runtime, and the parity of both.

`exporting` is called by an attempt. Formats that need other packages (onnx, onnxruntime, gguf, xllamacpp: the extra
`export`) import them when they are used.
"""
