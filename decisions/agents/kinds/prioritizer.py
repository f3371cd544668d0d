"""PRIORITIZER chooses the next item among the open ones. PURE."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from decisions.agents.kinds.setup import BESIDE, Action, KindSetup, Known, Share, Text, offered

OfferedItem = Annotated[str, offered("todoItems[].id")]


class PrioritizerState(msgspec.Struct):
    todoItems: Annotated[list[Known], Meta(min_length=1, max_length=10_000)]  # noqa: N815 - the app's own names
    userContext: Any = None  # noqa: N815
    constraints: Any = None


class AlternativeItem(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    item_id: OfferedItem
    confidence: Share | None = None
    reasoning: Text | None = None


class PrioritizerAction(Action, kw_only=True):
    recommended_item_id: OfferedItem
    alternatives: Annotated[Annotated[list[AlternativeItem], Meta(max_length=3)] | None, BESIDE] = None


PROMPT = """Choose the item to do next.

Open items: {{ todoItems }}
The person: {{ userContext? }}
Constraints: {{ constraints? }}

Answer with JSON: recommended_item_id, alternatives (at most three), confidence, reasoning."""

SETUP = KindSetup(
    system=(
        "You choose what a person does next. Recommend one of the open items by its id, name up to three alternatives, "
        "and give your reason. Never name an id that is not among the open items."
    ),
    prompt_template=PROMPT,
    state=PrioritizerState,
    action=PrioritizerAction,
    max_prompt_tokens=1024,
    max_completion_tokens=256,
    unit="user",
    chosen_at="recommended_item_id",
)
