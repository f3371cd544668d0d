"""The columns of a row that say what was asked. Every shape of row writes them so."""

from __future__ import annotations

from typing import Any

from models_registry.backends.prompts import Prompt


def prompt_columns(prompt: Prompt) -> dict[str, Any]:
    """`prompt`, and `system` where there is a system prompt: rows without one are what they were before there was any,
    byte for byte."""
    return {"prompt": prompt.text} | ({"system": prompt.system} if prompt.system else {})
