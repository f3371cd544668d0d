"""STORER decides whether and where a completed item goes into its project's document. PURE."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from decisions.agents.kinds.setup import Action, KindSetup, Text, Thing


class StorerState(msgspec.Struct):
    completedItem: Thing  # noqa: N815 - the app's own names
    targetOpus: Thing  # noqa: N815
    targetSections: list[Any] | None = None  # noqa: N815
    integrationHistory: list[Any] | None = None  # noqa: N815


class StorerAction(Action, kw_only=True):
    integrationDecision: Literal["INTEGRATE", "COLD_STORAGE"]  # noqa: N815
    location: Text | None = None
    method: Literal["APPEND", "MERGE", "REPLACE", "NEW_SECTION"] | None = None
    newSectionHeading: Text | None = None  # noqa: N815
    suggestedContent: Text | None = None  # noqa: N815


PROMPT = """Store this completed item.

Completed item: {{ completedItem }}
Project: {{ targetOpus }}
Its sections: {{ targetSections? }}
Earlier integrations: {{ integrationHistory? }}

Answer with JSON: integrationDecision, location, method, newSectionHeading, suggestedContent, confidence, reasoning."""

SETUP = KindSetup(
    system=(
        "You put finished work where it will be found. Integrate it into the project's document (APPEND, MERGE, "
        "REPLACE, NEW_SECTION, and where), or put it into COLD_STORAGE when it adds nothing."
    ),
    prompt_template=PROMPT,
    state=StorerState,
    action=StorerAction,
    max_completion_tokens=512,
    item_at="completedItem",
    project_at="targetOpus",
    explains=frozenset({"newSectionHeading", "suggestedContent"}),
)
