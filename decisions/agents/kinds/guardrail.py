"""GUARDRAIL decides whether content may pass. PURE."""

from __future__ import annotations

from typing import Any

import msgspec

from decisions.agents.kinds.setup import KindSetup, Text


class GuardrailState(msgspec.Struct):
    content: Text
    context: Any = None


PROMPT = """May this content pass?

Content: {{ content }}
Context: {{ context? }}

Answer with one of: {{ options }}."""

SETUP = KindSetup(
    system="You decide whether content may pass. Answer ALLOW or BLOCK and nothing else.",
    prompt_template=PROMPT,
    state=GuardrailState,
    options=("ALLOW", "BLOCK"),
    max_prompt_tokens=1024,
    max_completion_tokens=8,
)
