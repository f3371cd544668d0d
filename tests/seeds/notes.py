"""Decisions of the notes app's FILER and PRIORITIZER as an outside model makes them: words say what is right."""

from __future__ import annotations

import random
from typing import Any

from decisions.agents.choices import choices_of, option_of
from decisions.agents.prompts import make_prompt
from decisions.agents.services import kind_setup

FILES = {
    "flight hotel passport visa": {"status": "TODO", "swimlane": "PROJECT", "priority": "HIGH"},
    "invoice tax salary loan": {"status": "ON_HOLD", "swimlane": "HOME", "priority": "LOW"},
    "spam advert lottery coupon": {"status": "TRASH", "swimlane": "HOME", "priority": "LOW"},
}
URGENT = ("deadline", "overdue", "today")
CALM = ("someday", "later", "maybe")
MODEL = "gpt-4.1-mini-20250101"


def decision(kind: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """State `number` of the kind, and the right action in it."""
    rng = random.Random(f"{kind}/{number}")
    if kind == "FILER":
        words, action = list(FILES.items())[number % len(FILES)]
        title = " ".join(rng.sample(words.split(), 2))
        return {"item": {"id": f"item-{number}", "title": f"{title} {number}"}}, dict(action)
    best, *others = [rng.choice(URGENT), *rng.sample(CALM, 2)]
    items = [{"id": f"item-{word}", "title": word} for word in rng.sample([best, *others], 3)]
    return {"todoItems": items}, {"recommended_item_id": f"item-{best}"}


def wrong(kind: str, state: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
    if kind == "FILER":
        return next(other for other in FILES.values() if other != action)
    others = [item["id"] for item in state["todoItems"] if item["id"] != action["recommended_item_id"]]
    return {"recommended_item_id": others[0]}


def as_labelled(kind: str, number: int) -> dict[str, Any]:
    """The right action in state `number`, as a row that teaches the kind's agent to choose it."""
    setup = kind_setup(kind)
    state, action = decision(kind, number)
    options = choices_of(setup, state).options or ()
    prompt = make_prompt(setup, state, options)
    return {
        "id": f"{kind}-{number}",
        "prompt": prompt.text,
        "options": list(options),
        "answer": option_of(setup, action),
    }


def record(app: Any, kind: str, numbers: range, *, wrong_every: int = 4, model: str = MODEL) -> list[str]:
    """Records decisions over the app's paths, with the person's verdicts; their ids."""
    made = []
    for number in numbers:
        state, action = decision(kind, number)
        is_wrong = number % wrong_every == wrong_every - 1
        chosen = wrong(kind, state, action) if is_wrong else action
        body = {
            "agentType": kind,
            "state": state,
            "action": chosen | {"confidence": 0.9, "reasoning": "It fits."},
            "userId": f"user-{number % 7}",
            "modelVersion": model,
        } | ({"itemId": state["item"]["id"]} if kind == "FILER" else {})  # fmt: skip
        answer = app.post("/api/training/decisions/record", body)
        assert answer.status_code == 201, answer.content
        made.append(answer.json()["id"])
        verdict = {"feedback": "CORRECTED", "correction": action} if is_wrong else {"feedback": "CONFIRMED"}
        answer = app.request("PATCH", f"/api/decisions/{made[-1]}/feedback", verdict)
        assert answer.status_code == 200, answer.content
    return made
