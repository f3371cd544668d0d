"""Makes what a model is asked, of an agent's version and a decision's state. PURE.

Everything that asks a model, or writes down what one was asked, calls `make_prompt`: serving, training, evaluation.

A template names fields of the state in double braces, dotted for nesting: `{{ item.title }}: {{ item.body }}`. `{{
item.body? }}` is optional and then reads "none". `{{ options }}` lists the offered options. Nothing else is evaluated:
stored text is data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from models_registry.backends.prompts import Prompt

FIELD = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)(\?)?\s*\}\}")
MISSING = "none"


class Version(Protocol):
    """What is read of an agent's version."""

    @property
    def prompt_template(self) -> str: ...
    @property
    def system_prompt(self) -> str: ...


class PromptError(ValueError):
    """The state lacks a field that the template names; `field` is its path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def template_fields(template: str) -> list[str]:
    """The paths that the template names, in order, without repetition. Raises ValueError for stray braces."""
    rest = FIELD.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise ValueError("a field is written {{ name }} or {{ name.inner }}, with a ? after the name if it is optional")
    return list(dict.fromkeys(match.group(1) for match in FIELD.finditer(template)))


def as_text(value: Any) -> str:
    """Text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def make_prompt(version: Version, state: Mapping[str, Any], options: Sequence[str] = ()) -> Prompt:
    """The version's filled template after its system prompt. Raises PromptError."""
    return Prompt(render_prompt(version.prompt_template, state, options), version.system_prompt)


def render_prompt(template: str, state: Mapping[str, Any], options: Sequence[str] = ()) -> str:
    """Fills the template. Raises PromptError for a field that the state lacks and must have."""

    def fill(match: re.Match[str]) -> str:
        path, optional = match.groups()
        if path == "options" and "options" not in state:
            return ", ".join(options)
        value: Any = state
        for name in path.split("."):
            if isinstance(value, Mapping) and name in value:
                value = value[name]
            elif (
                isinstance(value, Sequence) and not isinstance(value, str) and name.isdigit() and int(name) < len(value)
            ):
                value = value[int(name)]
            elif optional:
                return MISSING
            else:
                raise PromptError(f"state.{path}", f"the prompt template uses {path}, which is not in the state")
        return MISSING if optional and value is None else as_text(value)

    return FIELD.sub(fill, template)
