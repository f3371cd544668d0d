"""checkpoints.md of TheAgentCompany: what is asked for and worth what, and what the text says of bonuses. No torch.

People wrote these files for people. Headings such as `## Checkpoint 2 (3pts)`, or lines such as `1. [2pts] …`, are the
checkpoints; what stands before the first is read for the bonus. A rule that no strategy can follow is kept as text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from training.engine.environments.grading import Strategy

HEADING = re.compile(r"^#+[ \t]+(.*?)[ \t]*\([ \t]*(\d+)[ \t]*(?:pt|point)s?[ \t]*\)[ \t]*$", re.IGNORECASE)
ITEM = re.compile(r"^(\d+)\.[ \t]+\[(\d+)[ \t]*(?:pt|point)s?\][ \t]*(.+)$", re.IGNORECASE)
TITLE = re.compile(r"^#+[ \t]*checkpoints?[ \t]*$", re.IGNORECASE)
STATED = re.compile(
    r"(\d+)\s+points?\s+in\s+total|total of (\d+) points?|checkpoints worth (\d+) points?", re.IGNORECASE
)
FINAL = re.compile(
    r"if (?:the )?(?:final|last|(?P<ordinal>second|third|fourth|fifth)) check(?:point)? (?:passe?s?|is complete)\b"
    r"[^.]*\b(?:full|all points)"
    r"|full credits? will be granted if (?:the )?final checkpoint passes",
    re.IGNORECASE,
)
ORDINALS = {"second": 2, "third": 3, "fourth": 4, "fifth": 5}
ANY_OF = re.compile(
    r"checkpoint 1's credit is granted as long as either checkpoint (\d+) or checkpoint (\d+) passes", re.IGNORECASE
)
OTHER_RULES = re.compile(
    r"only the previous checkpoint pass|only pass the first checkpoint"
    r"|first checkpoint's score is granted only if all",
    re.IGNORECASE,
)
ASKS_A_MODEL = re.compile(r"judged by (?:an )?llm|using (?:an )?llm|\bllm evaluat", re.IGNORECASE)


class NoCheckpoints(ValueError):
    """A text has no checkpoint with points."""


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint: its heading, what it is worth, and what it asks for."""

    name: str
    points: int
    text: str


class Checkpoints(NamedTuple):
    """`given`: of strategy `any_of`, numbers from 1. `rules`: sentences that no strategy follows. `stated_points`: what
    the text says is the total. `asks_a_model`: the text says that a model judges."""

    asked: tuple[Asked, ...]
    strategy: Strategy
    given: tuple[int, ...]
    rules: tuple[str, ...]
    stated_points: int | None
    asks_a_model: bool


def read_checkpoints(text: str) -> Checkpoints:
    """Raises NoCheckpoints."""
    before, asked = _split(text)
    if not asked:
        raise NoCheckpoints("has no checkpoint with points, such as: ## Checkpoint 1 (2pts)")
    if worthless := [one.name for one in asked if one.points < 1]:
        raise NoCheckpoints(f"{worthless[0]}: is worth nothing")
    said = " ".join(before.split())
    stated = STATED.search(said)
    strategy, given = _read_strategy(said, len(asked))
    sentences = re.split(r"(?<=[.!])\s+", said)
    return Checkpoints(
        asked=tuple(asked),
        strategy=strategy,
        given=given,
        rules=tuple(one for one in sentences if OTHER_RULES.search(one)),
        stated_points=next((int(number) for number in stated.groups() if number), None) if stated else None,
        asks_a_model=ASKS_A_MODEL.search(text) is not None,
    )


def _read_strategy(said: str, count: int) -> tuple[Strategy, tuple[int, ...]]:
    if found := ANY_OF.search(said):
        numbers = tuple(sorted({int(found[1]), int(found[2])}))
        if numbers[0] >= 1 and numbers[-1] <= count:
            return Strategy.ANY_OF, numbers
    found = FINAL.search(said)
    if found and ORDINALS.get((found["ordinal"] or "").lower(), count) == count:
        return Strategy.FINAL, ()
    return Strategy.SUM, ()


def _split(text: str) -> tuple[str, list[Asked]]:
    """What stands before the first checkpoint, and the checkpoints."""
    before: list[str] = []
    parts: list[tuple[str, int, list[str]]] = []
    for line in text.splitlines():
        if found := HEADING.match(line):
            parts.append((found[1], int(found[2]), []))
        elif found := ITEM.match(line):
            parts.append((f"Checkpoint {found[1]}", int(found[2]), [found[3]]))
        elif parts:
            parts[-1][2].append(line)
        elif not TITLE.match(line):
            before.append(line)
    return "\n".join(before), [Asked(name, points, "\n".join(lines).strip()) for name, points, lines in parts]
