"""The Modelfile of an exported version: how Ollama makes a model of its folder. PURE.

`ollama create NAME -f Modelfile` in the folder reads it. Without a template in Go, Ollama takes that of the
folder's tokenizer or of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from training.exports.hosting import PROFILE_FILE, HostingProfile

MODELFILE = "Modelfile"
_QUOTES = '"""'


class Version(Protocol):
    """What is read of an agent's version."""

    @property
    def system_prompt(self) -> str: ...
    @property
    def temperature(self) -> float: ...
    @property
    def max_completion_tokens(self) -> int | None: ...
    @property
    def max_prompt_tokens(self) -> int | None: ...


def write_beside_gguf(
    version: Version | None, quantisation: str, details: Mapping[str, Any], profile: HostingProfile
) -> dict[str, str]:
    """Modelfile and hosting_profile.json for the folder of a GGUF, of which the engine says `details`."""
    plain = profile.as_plain(details.get("positions"), version.max_prompt_tokens if version is not None else None)
    template = details.get("ollama", {}).get("template", "")
    modelfile = write_modelfile(version, f"./model-{quantisation}.gguf", template, plain["parameters"])
    return {MODELFILE: modelfile, PROFILE_FILE: json.dumps(plain, indent=2) + "\n"}


def write_modelfile(
    version: Version | None, source: str = ".", template: str = "", parameters: Mapping[str, Any] | None = None
) -> str:
    """Asks as the gateway does under this version of the agent: its temperature, its longest answer, its system prompt.
    Without an agent these are left to Ollama. `source` is the folder itself or a file in it, `template` the chat
    template in Go where there is one, `parameters` those of a hosting profile. The longest prompt of training is a
    comment: Ollama has no parameter for it. A system prompt that Ollama's parser would end too early is left out, and a
    comment says so."""
    asked: dict[str, Any] = {}
    comments, system = [], ""
    if version is not None:
        comments = [f"# as {version} asks"]
        if (most := version.max_prompt_tokens) is not None:
            comments += [f"# trained on prompts of up to {most} tokens: longer ones were read without their middle"]
        asked = {"temperature": f"{version.temperature:g}"}
        if version.max_completion_tokens is not None:
            asked["num_predict"] = version.max_completion_tokens
        system = version.system_prompt
    values = {**asked, **(parameters or {})}
    lines = [*comments, f"FROM {source}", *(f"PARAMETER {name} {value}" for name, value in values.items())]
    if template:
        lines.append(f"TEMPLATE {_QUOTES}{template}{_QUOTES}")
    if system and _fits(system):
        lines.append(f"SYSTEM {_QUOTES}{system}{_QUOTES}")
    elif system:
        lines.append(f"# No SYSTEM: a line of the system prompt ends with {_QUOTES}, where Ollama would end it.")
    return "\n".join(lines) + "\n"


def _fits(text: str) -> bool:
    """Ollama ends a text in triple quotes at the first line that ends with them (its parser/parser.go)."""
    *lines, _ = re.split(r"[\r\n]", text)
    return not any(line.rstrip().endswith(_QUOTES) for line in lines)
