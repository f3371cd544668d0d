"""LIBRARIAN finds how a new item relates to existing ones. PURE."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from decisions.agents.kinds.setup import Action, KindSetup, Known, Share, Text, Thing, offered

FindingType = Literal["CONFLICT", "DEPENDENCY", "REDUNDANCY", "RELATED", "SUGGESTION"]


class LibrarianState(msgspec.Struct):
    newItem: Thing  # noqa: N815 - the app's own names
    opus: Thing | None = None
    corpus: list[Known] | None = None


class Finding(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    type: FindingType
    relatedIds: Annotated[list[Annotated[str, offered("corpus[].id")]], Meta(max_length=1000)] = []  # noqa: N815
    description: Text | None = None
    confidence: Share | None = None


class LibrarianAction(Action, kw_only=True):
    findings: Annotated[list[Finding], Meta(max_length=1000)]


PROMPT = """Compare this new item with the corpus.

New item: {{ newItem }}
Project: {{ opus? }}
Corpus: {{ corpus? }}

Answer with JSON: findings, a list of {type, relatedIds, description}."""

SETUP = KindSetup(
    system=(
        "You look after a collection. Of a new item say which conflicts, dependencies, redundancies and relations it "
        "has with what is there, and what you suggest; name the ids concerned. Find nothing where there is nothing."
    ),
    prompt_template=PROMPT,
    state=LibrarianState,
    action=LibrarianAction,
    item_at="newItem",
    project_at="opus",
    explains=frozenset({"description", "confidence"}),
    sets=frozenset({"findings", "relatedIds"}),
)
