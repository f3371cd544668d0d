"""What a program records, as items for the sender. Nothing in here raises into the host, or waits."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from reckoner_client.sender import Sender
from reckoner_client.wire import encode, shorten, uuid7

Id = uuid.UUID | str
LONGEST_TEXT = 200_000


class DecisionFields(TypedDict, total=False):
    """What may be said of a decision, beside its agent, state and action.

    `propensity` in (0, 1], `confidence` and `epsilon` in [0, 1]; `temperature` positive; `latency_ms` in milliseconds;
    `cost` in your currency. `alternatives`: actions that were not chosen, with their probabilities. `item_ref`,
    `project_ref`, `user_ref`: the app's own ids of what the decision is about; `next_state`: what became of the state.
    Who acted: `model_version` (a number of Reckoner's), else `policy_name`, else the client's.
    """

    id: Id | None
    policy_name: str | None
    model_version: int | None
    options: Sequence[str] | None
    observed_at: dt.datetime | None
    propensity: float | None
    temperature: float | None
    epsilon: float | None
    confidence: float | None
    reasoning: str | None
    completion: str | None
    alternatives: Mapping[str, float] | Sequence[Mapping[str, Any]] | None
    episode: str | None
    step_number: int | None
    unit: str | None
    external_id: str | None
    latency_ms: float | None
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    item_ref: str | None
    project_ref: str | None
    user_ref: str | None
    next_state: Mapping[str, Any] | None


class Recorder:
    """The part of a client that records; without a sender it records nothing."""

    def __init__(self, sender: Sender | None, policy_name: str | None) -> None:
        self.policy_name = policy_name
        self._sender = sender

    def record_decision(
        self, agent: str, state: Mapping[str, Any], action: Any, **fields: Unpack[DecisionFields]
    ) -> uuid.UUID:
        """Queues a decision that was made here, and returns its id for feedback to name. Never raises, never waits.

        What the API does not keep goes to `on_refused`.
        """
        made = as_id(fields.get("id"))
        try:
            item: dict[str, Any] = {"agent": agent, "state": state, "action": action, **fields, "id": str(made)}
            if item.get("observed_at") is None:
                item["observed_at"] = dt.datetime.now(dt.UTC)
            if item.get("model_version") is None:
                item["policy_name"] = item.get("policy_name") or self.policy_name
            if isinstance(others := item.get("alternatives"), Mapping):
                item["alternatives"] = [{"action": name, "probability": share} for name, share in others.items()]
            for name in ("reasoning", "completion"):
                if item.get(name):
                    item[name] = shorten(item[name], LONGEST_TEXT)
            self.offer("decisions", made, item)
        except Exception as error:  # noqa: BLE001 - bookkeeping must not fail the host
            self.fault(error)
        return made

    def record_feedback(
        self,
        metric: str,
        value: bool | float | str,
        *,
        decision_id: Id | None = None,
        episode_id: Id | None = None,
        unit: str | None = None,
        id: Id | None = None,
        source: Literal["human", "llm", "code", "system"] = "human",
        observed_at: dt.datetime | None = None,
        idempotency_key: str | None = None,
        supersedes: Id | None = None,
    ) -> uuid.UUID | None:
        """Queues how a decision, an episode or a unit went, and returns the feedback's id. Never raises, never waits.

        The metric `verdict` takes confirmed, corrected, overridden or ignored. Give exactly one of `decision_id`,
        `episode_id` and `unit`. With an `idempotency_key` a second call for the same target counts once, whatever
        process makes it; then the server makes the id, and this returns None.
        """
        # With an id or a moment of its own, another process's call under the same key would be a conflict.
        keyed = idempotency_key is not None and id is None
        made = as_id(id)
        item = {
            "metric": metric,
            "value": value,
            "decision_id": decision_id,
            "episode_id": episode_id,
            "unit": unit,
            "id": None if keyed else str(made),
            "source": source,
            "observed_at": observed_at or (None if keyed else dt.datetime.now(dt.UTC)),
            "idempotency_key": idempotency_key,
            "supersedes": supersedes,
        }
        self.offer("feedback", made, item)
        return None if keyed else made

    def offer(self, kind: str, item_id: Id, fields: Mapping[str, Any]) -> None:
        """Queues one item of the endpoint `kind`, without what is None."""
        if self._sender is not None:
            try:
                data = encode({name: value for name, value in fields.items() if value is not None})
                self._sender.offer(kind, str(item_id), data)
            except Exception as error:  # noqa: BLE001 - bookkeeping must not fail the host
                self.fault(error)

    def fault(self, error: BaseException) -> None:
        """Counts and logs what went wrong in the bookkeeping."""
        if self._sender is not None:
            self._sender.count_fault(error)


def as_id(given: Id | None) -> uuid.UUID:
    """An id that the host chose, or a fresh one. What is no id at all is replaced: the host is not failed for it."""
    try:
        return uuid7() if given is None else given if isinstance(given, uuid.UUID) else uuid.UUID(given)
    except (ValueError, TypeError, AttributeError):
        return uuid7()
