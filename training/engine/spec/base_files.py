"""The files of a model's folder that a base consists of: what loads it, and whose terms apply; and whether it is a
language model or a sentence encoder. Loads nothing."""

import json
from pathlib import Path

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

ENCODER_MODULES = "modules.json"
"""What a folder of sentence-transformers has: its modules in order."""


def is_sentence_encoder(folder: Path) -> bool:
    """Whether the folder's model turns texts into vectors, and writes none: one of sentence-transformers, or one whose
    config names a class without a head or with that of masked words."""
    if (folder / ENCODER_MODULES).is_file():
        return True
    try:
        named = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures")
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
    return (
        isinstance(named, list) and bool(named) and all(str(name).endswith(("Model", "ForMaskedLM")) for name in named)
    )
