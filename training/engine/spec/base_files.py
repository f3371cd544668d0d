"""The files of a model's folder that a base consists of: what loads it, and whose terms apply. Loads nothing."""

BASE_FILES = (
    "*.safetensors",
    "*.json",
    "*.txt",
    "*.model",
    "*.jinja",
    "*.md",
    "LICENSE*",
    "NOTICE*",
    "USE_POLICY*",
)
"""Patterns of names. Pickled weights, and copies for other programs, are left where they are."""
