"""Hosting profiles: how an Ollama server and a model in it are set up for so many users. PURE.

What belongs to the model goes into it as parameters; the rest are variables of the server's environment, which Ollama
reads when it starts. `hosting_profile.json` holds both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROFILE_FILE = "hosting_profile.json"
STANDARD = "standard"


@dataclass(frozen=True, slots=True)
class HostingProfile:
    """`parallel`: requests at once; `context`: tokens of each; `threads`: None leaves them to Ollama."""

    name: str
    does: str
    parallel: int
    context: int
    threads: int | None = None
    flash_attention: bool = False

    def parameters(self, positions: int | None = None) -> dict[str, int]:
        """Of the model; no more context than its `positions`."""
        told = {"num_ctx": min(self.context, positions) if positions else self.context}
        return told if self.threads is None else told | {"num_thread": self.threads}

    def environment(self) -> dict[str, str]:
        """Of the server."""
        return {
            "OLLAMA_NUM_PARALLEL": str(self.parallel),
            "OLLAMA_FLASH_ATTENTION": "1" if self.flash_attention else "0",
        }

    def as_plain(self, positions: int | None = None, max_prompt_tokens: int | None = None) -> dict[str, Any]:
        """What `hosting_profile.json` holds. `max_prompt_tokens`: training left out the middle of longer prompts, which
        Ollama does not do (docs/export.md)."""
        return {
            "name": self.name,
            "parallel": self.parallel,
            "context": self.parameters(positions)["num_ctx"],
            "threads": self.threads,
            "flash_attention": self.flash_attention,
            "max_prompt_tokens": max_prompt_tokens,
            "parameters": self.parameters(positions),
            "environment": self.environment(),
        }


_TABLE = (
    HostingProfile("small", "one request at a time in 2,048 tokens, for a laptop", 1, 2048),
    HostingProfile(STANDARD, "two requests at once in 4,096 tokens", 2, 4096),
    HostingProfile(
        "busy", "eight requests at once in 4,096 tokens with flash attention, for a GPU", 8, 4096, None, True
    ),
    HostingProfile("long", "one request at a time in 32,768 tokens with flash attention", 1, 32768, None, True),
)
PROFILES: Mapping[str, HostingProfile] = {profile.name: profile for profile in _TABLE}
HELP = "; ".join(f"{profile.name}: {profile.does}" for profile in _TABLE)
