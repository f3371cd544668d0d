"""Makes items for the sender from what a program records. Nothing in here raises into the program, or waits."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from reckoner_client.sender import Sender
from reckoner_client.wire import shorten, uuid7

Id = uuid.UUID | str
LONGEST_TEXT = 200_000


class Recorder:
    """The part of a client that records."""

    def __init__(self, sender: Sender, policy_name: str | None) -> None:
        self.policy_name = policy_name
        self.sender = sender

    def check_agent(self, agent: str) -> None:
        """Raises ConfigurationError when the agent is known not to exist."""

    def record_decision(
        self, agent: str, state: Mapping[str, Any], action: Any, *, id: Id | None = None, **fields: Any
    ) -> uuid.UUID:
        """Queues a decision that was made here, and returns its id for feedback to name. Never raises, never waits.

        `fields`: the API's, see docs/api.md: `policy_name` (else the client's), `propensity`, `unit`, … What the API
        does not keep goes to `on_refused`.
        """
        made = as_id(id)
        item: dict[str, Any] = {"agent": agent, "state": state, "action": action, **fields, "id": str(made)}
        if item.get("observed_at") is None:
            item["observed_at"] = dt.datetime.now(dt.UTC)
        if item.get("model_version") is None:
            item["policy_name"] = item.get("policy_name") or self.policy_name
        for name in ("reasoning", "completion"):
            if isinstance(text := item.get(name), str):
                item[name] = shorten(text, LONGEST_TEXT)
        self.sender.offer("decisions", item)
        return made

    def record_feedback(
        self,
        metric: str,
        value: bool | float | str,
        *,
        correction: object = None,
        decision_id: Id | None = None,
        id: Id | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> uuid.UUID | None:
        """Queues how a decision, an episode or a unit went, and returns the feedback's id. Never raises, never waits.

        The metric `verdict` takes confirmed, corrected, overridden or ignored; with corrected or overridden,
        `correction` is the action that would have been right, in the shape of the decision's own. Give exactly one of
        `decision_id`, `episode_id` and `unit`; `fields` are the API's. With an `idempotency_key` a second call for the
        same target counts once, whatever process makes it; then the server makes the id, and this returns None.
        """
        item = {"metric": metric, "value": value, "correction": correction, "decision_id": decision_id}
        item |= {"source": "human", **fields}
        if idempotency_key is not None and id is None:
            # With an id or a moment of its own, another process's call under the same key would be a conflict.
            self.sender.offer("feedback", item | {"idempotency_key": idempotency_key})
            return None
        made = as_id(id)
        own = {"id": str(made), "observed_at": fields.get("observed_at") or dt.datetime.now(dt.UTC)}
        self.sender.offer("feedback", item | own | {"idempotency_key": idempotency_key})
        return made


def as_id(given: Id | None) -> uuid.UUID:
    """An id that the host chose, or a fresh one. What is no id at all is replaced: the host is not failed for it."""
    try:
        return uuid7() if given is None else given if isinstance(given, uuid.UUID) else uuid.UUID(given)
    except (ValueError, TypeError, AttributeError):
        return uuid7()
