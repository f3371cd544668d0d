"""The bodies of the ingest endpoints, decoded and checked by msgspec in one pass.

`omit_defaults`: a field that was left out is not part of the content hash, so that a new field does not make earlier
content look different.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Text = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Long = Annotated[str, Meta(max_length=200_000)]
ROUNDING = 1e-6
"""By how much a probability of 32 bits, or a sum of some, may be above 1 (decisions.ingest.decoding)."""
ROUNDED = "What is above 1 by up to 0.000001, as numbers of 32 bits are, counts as 1."
Share = Annotated[float, Meta(ge=0, le=1, description=ROUNDED)]
Propensity = Annotated[float, Meta(gt=0, le=1, description=ROUNDED)]
Moment = Annotated[dt.datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
# Thirty years: a duration that cannot be added to a time would break every page that shows it.
LONGEST_MS = 1e12
Milliseconds = Annotated[float, Meta(ge=0, le=LONGEST_MS)]

Ending = Literal["stop", "length", "tool_calls", "content_filter", "abandoned", "cut"]

MAX_ITEMS = 1000


class Alternative(msgspec.Struct, forbid_unknown_fields=True):
    """An action that was not chosen, with its probability under the acting policy where it is known."""

    action: Any
    probability: Share | None = None


class DecisionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False, omit_defaults=True):
    """One decision that an agent made elsewhere. `id` is a uuid7 within 400 days back and 1 hour ahead; other ids go
    to `external_id`. `policy_name` names an outside model; leave it out when `model_version` (its number) acted."""

    agent: Name
    state: dict[str, Any]
    action: Any
    id: uuid.UUID | UnsetType = UNSET
    options: Annotated[list[Name], Meta(min_length=1, max_length=10_000)] | None = None
    policy_name: Name | None = None
    model_version: Annotated[int, Meta(ge=1)] | None = None
    observed_at: Moment | UnsetType = UNSET
    propensity: Propensity | None = None
    temperature: Annotated[float, Meta(gt=0)] | None = None
    epsilon: Share | None = None
    confidence: Share | None = None
    reasoning: Long | None = None
    completion: Long | None = None
    finish_reason: Ending | None = None
    parameters: dict[str, Any] | None = None
    alternatives: Annotated[list[Alternative], Meta(max_length=10_000)] | None = None
    episode: Text | None = None
    step_number: Count | None = None
    unit: Name | None = None
    external_id: Text | None = None
    latency_ms: Milliseconds | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    cost: Annotated[float, Meta(ge=0, le=999_999)] | None = None
    item_ref: Name | None = None
    project_ref: Name | None = None
    user_ref: Name | None = None
    next_state: dict[str, Any] | None = None


class FeedbackIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False, omit_defaults=True):
    """Something observed after a decision. Give exactly one of decision_id, episode_id and unit.

    The metric `verdict` takes confirmed, corrected, overridden or ignored; any other takes a number, text or boolean.
    `correction`: with `corrected` or `overridden`, the right action, in the shape of the decision's own.
    """

    metric: Annotated[str, Meta(min_length=1, max_length=64)]
    value: bool | float | int | str
    correction: Any = None
    decision_id: uuid.UUID | None = None
    episode_id: uuid.UUID | None = None
    unit: Name | None = None
    id: uuid.UUID | UnsetType = UNSET
    source: Literal["human", "llm", "code", "system"] = "human"
    observed_at: Moment | UnsetType = UNSET
    idempotency_key: Name | None = None
    supersedes: uuid.UUID | None = None


class DecideItem(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One input on which an agent is asked to decide. `options` where the agent's version fixes none: what is chosen
    from or ranked, or the names of the tools on offer. `places`: how many of a ranking are shown, by default all."""

    state: dict[str, Any]
    options: Annotated[list[Name], Meta(min_length=1, max_length=1000)] | None = None
    places: Annotated[int, Meta(ge=1, le=1000)] | None = None
    unit: Name | None = None
    episode: Text | None = None
    step_number: Count | None = None
    external_id: Text | None = None
    id: uuid.UUID | UnsetType = UNSET
    item_ref: Name | None = None
    project_ref: Name | None = None
    user_ref: Name | None = None
