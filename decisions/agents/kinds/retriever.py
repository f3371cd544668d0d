"""RETRIEVER writes content for a request from documents that it cites. PURE."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from decisions.agents.kinds.setup import Action, KindSetup, Known, Text, offered

OfferedOpus = Annotated[str, offered("relevantOpuses[].id")]


class RetrieverState(msgspec.Struct):
    query: Annotated[str, Meta(min_length=1, max_length=200_000)]
    requestType: str | None = None  # noqa: N815 - the app's own names
    parameters: Any = None
    relevantOpuses: Annotated[list[Known], Meta(max_length=10_000)] | None = None  # noqa: N815
    history: list[Any] | None = None


class Citation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    opusId: OfferedOpus  # noqa: N815
    section: Text | None = None
    quote: Text | None = None


class RetrieverAction(Action, kw_only=True):
    generatedContent: Text  # noqa: N815
    sourceCitations: Annotated[list[OfferedOpus | Citation], Meta(max_length=1000)] = []  # noqa: N815


PROMPT = """Answer from the documents.

Request: {{ query }}
Kind: {{ requestType? }}
Parameters: {{ parameters? }}
Documents: {{ relevantOpuses? }}
Earlier requests: {{ history? }}

Answer with JSON: generatedContent, sourceCitations (ids of documents), confidence."""

SETUP = KindSetup(
    system=(
        "You write what is asked for from the documents that you are given and from nothing else. Cite the id of every "
        "document that you used."
    ),
    prompt_template=PROMPT,
    state=RetrieverState,
    action=RetrieverAction,
    max_prompt_tokens=2048,
    max_completion_tokens=1024,
    unit="user",
    explains=frozenset({"generatedContent", "section", "quote"}),
    sets=frozenset({"sourceCitations"}),
)
