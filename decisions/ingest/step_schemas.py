"""The bodies of the endpoints of steps and episodes, decoded and checked by msgspec in one pass."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from decisions.ingest.schemas import Count, Long, Milliseconds, Moment, Name, Share, Text

Cost = Annotated[float, Meta(ge=0, le=999_999)]
Points = Annotated[list[Long], Meta(max_length=1000)]


class StepIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Something that happened inside an episode or on the way to a decision. Give `decision_id`, or `agent` and
    `episode` (its name; `trace:` and 32 hex digits for the episode of an OpenTelemetry trace), or all three.

    `parent` is the `external_id` of the step that this one lies in; it may come later. An `error` means that the step
    failed. `id` is a uuid7, as a decision's.
    """

    kind: Literal["tool_call", "llm_call", "reasoning", "span"]
    agent: Name | None = None
    episode: Name | None = None
    decision_id: uuid.UUID | None = None
    id: uuid.UUID | UnsetType = UNSET
    number: Count | None = None
    name: Text = ""
    external_id: Name | None = None
    parent: Name | None = None
    arguments: Any = None
    result: Any = None
    success: bool | None = None
    error: Long = ""
    reasoning_type: Annotated[str, Meta(max_length=64)] = ""
    content: Long = ""
    confidence: Share | None = None
    insights: Points | None = None
    issues: Points | None = None
    model: Text = ""
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    cost: Cost | None = None
    started_at: Moment | UnsetType = UNSET
    duration_ms: Milliseconds | None = None
    attributes: dict[str, Any] | None = None


class EpisodeIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is known of an episode by now. It is found by its name (`episode`) at its agent, and made on first sight;
    what is given replaces what was said before, what is left out stays."""

    agent: Name
    episode: Name
    session: Text | None = None
    unit: Text | None = None
    query: Long | None = None
    final_response: Long | None = None
    tasks_created: Count | None = None
    tasks_completed: Count | None = None
    tasks_failed: Count | None = None
    llm_calls: Count | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    cost: Cost | None = None
    duration_ms: Milliseconds | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
