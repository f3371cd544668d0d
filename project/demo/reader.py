"""A reader of the demo world: knows where each passage belongs, and says so at once, later, never, or wrongly.

PURE and reproducible: what becomes of a passage follows from the seed and its id. The reader's knowledge stays in a
file beside the ledger; decisions carry only what a live system would know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from project.demo.passages import Passage, World, build_world

When = Literal["at_once", "late", "never"]

NEVER = 0.15
LATE = 0.10
WRONG = 0.05


@dataclass(frozen=True, slots=True)
class Reaction:
    """`verdict` is what the reader will say of the action, `when` whether and how soon."""

    when: When
    verdict: Literal["confirmed", "corrected"]


def unit_interval(seed: int, *parts: str) -> float:
    """A number in [0, 1) that follows from the seed and the parts."""
    digest = hashlib.sha256("|".join([str(seed), *parts]).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def react(seed: int, passage_id: str, topic: str, action: str) -> Reaction:
    """15 % are never answered, 10 % late; 5 % of the answers say the opposite of the truth."""
    timing = unit_interval(seed, passage_id, "when")
    when: When = "never" if timing < NEVER else "late" if timing < NEVER + LATE else "at_once"
    right = action == topic
    if unit_interval(seed, passage_id, "noise") < WRONG:
        right = not right
    return Reaction(when, "confirmed" if right else "corrected")


@lru_cache(maxsize=2)
def load_world(folder: Path, seed: int) -> World:
    """The world of this seed, read once from the installed packages and kept beside the ledger."""
    path = folder / f"world-{seed}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        world = build_world(seed)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(world), ensure_ascii=False), encoding="utf-8")
        draft.replace(path)
        return world
    plain = json.loads(path.read_text(encoding="utf-8"))
    return World(
        train=tuple(Passage(**row) for row in plain["train"]),
        heldout=tuple(Passage(**row) for row in plain["heldout"]),
        topics=tuple(plain["topics"]),
    )


def labelled_row(passage: Passage, topics: tuple[str, ...]) -> Mapping[str, object]:
    """A passage as a labelled row; rows of one module are one cluster."""
    return {
        "id": passage.id,
        "prompt": passage.text,
        "options": list(topics),
        "answer": passage.topic,
        "group": passage.module,
    }
