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
OWN_MODULES = "sentence_transformers."


def is_sentence_encoder(folder: Path) -> bool:
    """Whether the folder's model turns texts into vectors, and writes none: one of sentence-transformers, or one whose
    config names a class without a head or with that of masked words."""
    if (folder / ENCODER_MODULES).is_file():
        return True
    try:
        named = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures")
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
    return isinstance(named, list) and bool(named) and all(map(_names_encoder, named))


def _names_encoder(architecture: object) -> bool:
    """Whether a class of transformers has no head that writes: BertModel, not GPT2LMHeadModel."""
    name = str(architecture)
    return name.endswith("ForMaskedLM") or (name.endswith("Model") and not name.endswith(("HeadModel", "HeadsModel")))


def find_encoder_fault(folder: Path) -> str | None:
    """What a folder lacks to be a sentence encoder; None where nothing is missing. Loads nothing."""
    if not (folder / "config.json").is_file() and not (folder / ENCODER_MODULES).is_file():
        return f"{folder} is no sentence encoder: it has neither config.json nor {ENCODER_MODULES}"
    if not any(folder.rglob("*.safetensors")):
        return f"{folder} has no weights as safetensors"
    if not (folder / ENCODER_MODULES).is_file():
        return None
    try:
        modules = json.loads((folder / ENCODER_MODULES).read_text(encoding="utf-8"))
        kinds = [str(module["type"]) for module in modules]
        places = [str(module.get("path", "")) for module in modules]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return f"{folder}: {ENCODER_MODULES} cannot be read ({type(error).__name__})"
    foreign = [kind for kind in kinds if not kind.startswith(OWN_MODULES)]
    if foreign:
        return f"{folder}: {ENCODER_MODULES} names {foreign[0]}, which is not part of sentence-transformers"
    outside = [place for place in places if not (folder / place).resolve().is_relative_to(folder.resolve())]
    return f"{folder}: {ENCODER_MODULES} names {outside[0][:100]}, which is outside of it" if outside else None
