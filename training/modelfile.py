"""The Modelfile of an exported version: how Ollama makes a model of its folder. PURE.

`ollama create NAME -f Modelfile` in the folder reads it. Without a template in Go, Ollama takes that of the
folder's tokenizer or of the file.
"""

from __future__ import annotations

import re
from typing import Protocol

MODELFILE = "Modelfile"
_QUOTES = '"""'


class Version(Protocol):
    """What is read of an agent's version."""

    @property
    def system_prompt(self) -> str: ...
    @property
    def temperature(self) -> float: ...
    @property
    def max_completion_tokens(self) -> int: ...
    @property
    def max_prompt_tokens(self) -> int: ...


def write_modelfile(version: Version, source: str = ".", template: str = "", context: int | None = None) -> str:
    """Asks as the gateway does under this version of the agent: its temperature, its longest answer, its system prompt.
    `source` is the folder itself or a file in it, `template` the chat template in Go where there is one, `context` the
    tokens of prompt and answer together, None to leave them to Ollama. The longest prompt of training is a comment:
    Ollama has no parameter for it. A system prompt that Ollama's parser would end too early is left out, and a comment
    says so."""
    lines = [
        f"# as {version} asks",
        f"# trained on prompts of up to {version.max_prompt_tokens} tokens: longer ones were read without their middle",
        f"FROM {source}",
        f"PARAMETER temperature {version.temperature:g}",
        f"PARAMETER num_predict {version.max_completion_tokens}",
    ]
    if context is not None:
        lines.append(f"PARAMETER num_ctx {context}")
    if template:
        lines.append(f"TEMPLATE {_QUOTES}{template}{_QUOTES}")
    if version.system_prompt and _fits(version.system_prompt):
        lines.append(f"SYSTEM {_QUOTES}{version.system_prompt}{_QUOTES}")
    elif version.system_prompt:
        lines.append(f"# No SYSTEM: a line of the system prompt ends with {_QUOTES}, where Ollama would end it.")
    return "\n".join(lines) + "\n"


def _fits(text: str) -> bool:
    """Ollama ends a text in triple quotes at the first line that ends with them (its parser/parser.go)."""
    *lines, _ = re.split(r"[\r\n]", text)
    return not any(line.rstrip().endswith(_QUOTES) for line in lines)
