"""Evaluation suites: made from labelled rows, answered by every new version, read and compared."""
