"""The columns of a row that say what was asked. Every shape of row writes them so."""

from __future__ import annotations

from typing import Any

from models_registry.backends.prompts import Prompt


def prompt_columns(prompt: Prompt) -> dict[str, Any]:
    """`prompt`, and `system` where there is a system prompt, or `messages` and `tools` of a chat: rows without any of
    them are what they were before there were any, byte for byte."""
    return {
        "prompt": prompt.text,
        **({"system": prompt.system} if prompt.system else {}),
        **({"messages": list(prompt.messages)} if prompt.messages else {}),
        **({"tools": list(prompt.tools)} if prompt.tools else {}),
    }
