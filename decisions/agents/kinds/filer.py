"""FILER chooses where a new item belongs, and how urgent it is. PURE."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from decisions.agents.kinds.setup import BESIDE, Action, KindSetup, Thing

Status = Literal["TODO", "ON_HOLD", "COMPENDIUM", "TRASH"]
Swimlane = Literal["EXPEDITE", "PROJECT", "HABIT", "HOME"]
Priority = Literal["LOW", "MEDIUM", "HIGH"]
Label = Annotated[str, Meta(min_length=1, max_length=200)]


class FilerState(msgspec.Struct):
    item: Thing
    assignedOpus: Thing | None = None  # noqa: N815 - the app's own names
    availableOpuses: list[Thing] | None = None  # noqa: N815
    strategicDocuments: list[Any] | None = None  # noqa: N815
    recentDecisions: list[Any] | None = None  # noqa: N815


class FilerAction(Action, kw_only=True):
    status: Status
    swimlane: Swimlane | None = None
    priority: Priority | None = None
    labels: Annotated[Annotated[list[Label], Meta(max_length=100)] | None, BESIDE] = None


PROMPT = """File this item.

Item: {{ item }}
Its project: {{ assignedOpus? }}
Projects there are: {{ availableOpuses? }}
Strategic documents: {{ strategicDocuments? }}
Earlier decisions: {{ recentDecisions? }}

Answer with JSON: status, swimlane, priority, labels, confidence."""

SETUP = KindSetup(
    system=(
        "You file items. Choose a status (TODO, ON_HOLD, COMPENDIUM, TRASH), a swimlane (EXPEDITE, PROJECT, HABIT, "
        "HOME), a priority (LOW, MEDIUM, HIGH) and labels, and say how sure you are from 0 to 1."
    ),
    prompt_template=PROMPT,
    state=FilerState,
    action=FilerAction,
    max_prompt_tokens=512,
    max_completion_tokens=128,
    item_at="item",
    project_at="assignedOpus",
)
