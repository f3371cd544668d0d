"""Shadows: a candidate is asked about live decisions beside the request path, and judged by their rewards."""

ANSWER = "training.answer_shadow"
"""The kind of job that asks a shadow's candidate once more, and judges it."""
