"""Small made worlds of the notes app: FILER, PRIORITIZER and RETRIEVER, in which what is right is learnt from words.

An outside policy decides, right only in a part of the cases; a person confirms what is right and corrects what is not.
Tests and benchmarks draw cases here. No Django.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

POLICY_RIGHT = 0.55
"""The share of cases in which the outside policy decides rightly."""
THINGS = "rent flights dentist invoice garden bicycle passport piano taxes kitchen letter meeting".split()  # noqa: SIM905
PLACES = {thing: place for place, thing in enumerate(THINGS)}
FILED: Mapping[str, tuple[str, str, str]] = {
    "pay": ("TODO", "EXPEDITE", "HIGH"),
    "plan": ("TODO", "PROJECT", "MEDIUM"),
    "read": ("COMPENDIUM", "HABIT", "LOW"),
    "forget": ("TRASH", "HOME", "LOW"),
}
"""Where an item belongs by the first word of its title."""
OFFERED = 4


class Case(NamedTuple):
    """What the agent was asked, what the outside policy did, and what would have been right."""

    state: dict[str, Any]
    action: dict[str, Any]
    right: dict[str, Any]


def _file(rng: random.Random) -> Case:
    word, other = rng.choice(list(FILED)), rng.choice(list(FILED))

    def filed(by: str) -> dict[str, Any]:
        return dict(zip(("status", "swimlane", "priority"), FILED[by], strict=True))

    title = f"{word} the {rng.choice(THINGS)}"
    done = word if rng.random() < POLICY_RIGHT else other
    return Case({"item": {"title": title}}, filed(done) | {"confidence": 0.8}, filed(word))


def _prioritize(rng: random.Random) -> Case:
    """The open item that stands first in THINGS comes first."""
    things = rng.sample(THINGS, OFFERED)
    first = min(things, key=PLACES.__getitem__)
    done = first if rng.random() < POLICY_RIGHT else rng.choice(things)
    state = {"todoItems": [{"id": thing} for thing in things]}
    return Case(state, {"recommended_item_id": done, "confidence": 0.7}, {"recommended_item_id": first})


def _prioritize_by_place(rng: random.Random) -> Case:
    """In the office the open item that stands first in THINGS comes first, at home the one that stands last: no word
    alone tells what comes first."""
    things, place = rng.sample(THINGS, OFFERED), rng.choice(["office", "home"])
    first = (min if place == "office" else max)(things, key=PLACES.__getitem__)
    done = first if rng.random() < POLICY_RIGHT else rng.choice(things)
    state = {"todoItems": [{"id": thing} for thing in things], "userContext": f"at the {place}"}
    return Case(state, {"recommended_item_id": done, "confidence": 0.7}, {"recommended_item_id": first})


def _retrieve(rng: random.Random) -> Case:
    """The document about the thing that is asked for is to be cited."""
    things = rng.sample(THINGS, OFFERED)
    wanted = rng.choice(things)

    def cited(thing: str) -> dict[str, Any]:
        return {"generatedContent": f"See {thing}.", "sourceCitations": [thing]}

    done = wanted if rng.random() < POLICY_RIGHT else rng.choice(things)
    state = {"query": f"Find the {wanted}", "relevantOpuses": [{"id": thing} for thing in things]}
    return Case(state, cited(done), cited(wanted))


WORLDS: Mapping[str, Callable[[random.Random], Case]] = {
    "FILER": _file,
    "PRIORITIZER": _prioritize,
    "PRIORITIZER by place": _prioritize_by_place,
    "RETRIEVER": _retrieve,
}


def draw_cases(world: str, count: int, seed: object) -> list[Case]:
    """So many cases of the world; the same for the same seed."""
    rng = random.Random(f"{world}/{seed}")
    return [WORLDS[world](rng) for _ in range(count)]
