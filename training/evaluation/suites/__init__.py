"""Evaluation suites: made from labelled rows, answered by every new version, read and compared."""

SCORE = "training.score_suite"
"""The kind of job that scores a version on a suite."""
