"""The client: what a host calls. Recording returns at once and never fails; asking waits and may."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

import msgspec

from reckoner_client import recording, wire, wrapping
from reckoner_client.errors import ConfigurationError, Refusal, Unavailable
from reckoner_client.ids import uuid7
from reckoner_client.sender import Sender
from reckoner_client.sending import Sending, Stats
from reckoner_client.transport import Reply, Transport, decode, from_environment, refused

__all__ = ["VERSION", "Answer", "Reckoner"]

VERSION = "0.1.0"
LONGEST_TEXT = 200_000
P = ParamSpec("P")
R = TypeVar("R")
Id = uuid.UUID | str
Source = Literal["human", "llm", "code", "system"]
_jitter = random.SystemRandom()
_ASKING_THREADS = 32


class Answer(msgspec.Struct, frozen=True):
    """What an agent decided; it is in the ledger as `decision_id`.

    `probabilities`: of each option under the policy that acted, in [0, 1], sum 1; `propensity` is the action's.
    `confidence`: the model's own probability of the action. `variant` and `assignment_probability` are None outside
    experiments. `fallback`: the control answered for a treatment that could not.
    """

    decision_id: uuid.UUID
    action: str
    probabilities: dict[str, float]
    propensity: float
    confidence: float
    model_version: str
    variant: str | None = None
    assignment_probability: float | None = None
    fallback: bool = False


class Reckoner:
    """A connection to one workspace of a Reckoner. Safe for threads, event loops and forks; make one a process.

    url: of the API, `http://host:8000/api/v1`; without a path `/api/v1` is added. RECKONER_URL where it is not given.
    key: an API key with the scopes of what is called. RECKONER_KEY where it is not given. A function is asked for it
    before each request, so that a rotated key is taken up without a restart.
    policy_name: who acted in recorded decisions that do not say.
    on_refused: called in the background thread with each item that the API did not keep.
    sending: queue, batches, retries.
    proxy: the address of an HTTP proxy, `http://user:password@host:port`; "" for none. By default HTTP_PROXY,
    HTTPS_PROXY and NO_PROXY say it, as they do for most programs.
    enabled: False records nothing, sends nothing and needs neither address nor key: for a host's own tests.

    Raises ConfigurationError without address or key. After that, nothing that records raises.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | Callable[[], str] | None = None,
        *,
        policy_name: str | None = None,
        on_refused: Callable[[Refusal], None] | None = None,
        sending: Sending | None = None,
        proxy: str | None = None,
        enabled: bool = True,
    ) -> None:
        self.policy_name = policy_name
        self._transport: Transport | None = None
        self._sender: Sender | None = None
        self._asking: tuple[int, ThreadPoolExecutor] | None = None
        if enabled:
            self._transport = Transport(
                from_environment(url, "RECKONER_URL", "address"),
                key if callable(key) else from_environment(key, "RECKONER_KEY", "key"),
                version=VERSION,
                proxy=proxy,
            )
            self._sender = Sender(self._transport, sending or Sending(), on_refused)

    # Recording

    def record_decision(
        self,
        agent: str,
        state: Mapping[str, Any],
        action: Any,
        *,
        id: Id | None = None,
        policy_name: str | None = None,
        model_version: int | None = None,
        options: Sequence[str] | None = None,
        observed_at: dt.datetime | None = None,
        propensity: float | None = None,
        temperature: float | None = None,
        epsilon: float | None = None,
        confidence: float | None = None,
        reasoning: str | None = None,
        completion: str | None = None,
        alternatives: Mapping[str, float] | Sequence[Mapping[str, Any]] | None = None,
        episode: str | None = None,
        step_number: int | None = None,
        unit: str | None = None,
        external_id: str | None = None,
        latency_ms: float | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        cost: float | None = None,
        item_ref: str | None = None,
        project_ref: str | None = None,
        user_ref: str | None = None,
        next_state: Mapping[str, Any] | None = None,
    ) -> uuid.UUID:
        """Queues a decision that was made here, and returns its id for feedback to name. Never raises, never waits.

        `propensity` in (0, 1], `confidence` and `epsilon` in [0, 1]; `temperature` positive; `latency_ms` in
        milliseconds; `cost` in your currency. `alternatives`: actions that were not chosen, with their probabilities.
        `item_ref`, `project_ref`, `user_ref`: the app's own ids of what the decision is about; `next_state`: what
        became of the state. Who acted: `model_version` (a number of ours), else `policy_name`, else the client's. What
        the API does not keep goes to `on_refused`.
        """
        made = _id(id)
        try:
            if isinstance(alternatives, Mapping):
                alternatives = [{"action": name, "probability": share} for name, share in alternatives.items()]
            fields = {
                "agent": agent,
                "state": state,
                "action": action,
                "id": str(made),
                "policy_name": policy_name or (self.policy_name if model_version is None else None),
                "model_version": model_version,
                "options": options,
                "observed_at": observed_at or dt.datetime.now(dt.UTC),
                "propensity": propensity,
                "temperature": temperature,
                "epsilon": epsilon,
                "confidence": confidence,
                "reasoning": reasoning and wire.shorten(reasoning, LONGEST_TEXT),
                "completion": completion and wire.shorten(completion, LONGEST_TEXT),
                "alternatives": alternatives,
                "episode": episode,
                "step_number": step_number,
                "unit": unit,
                "external_id": external_id,
                "latency_ms": latency_ms,
                "tokens_in": tokens_in,
                "tokens_out": tokens_out,
                "cost": cost,
                "item_ref": item_ref,
                "project_ref": project_ref,
                "user_ref": user_ref,
                "next_state": next_state,
            }
            self._offer("decisions", made, fields)
        except Exception as error:  # noqa: BLE001 - bookkeeping must not fail the host
            self._fault(error)
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
        source: Source = "human",
        observed_at: dt.datetime | None = None,
        idempotency_key: str | None = None,
        supersedes: Id | None = None,
    ) -> uuid.UUID | None:
        """Queues how a decision, an episode or a unit went, and returns the feedback's id. Never raises, never waits.

        The metric `verdict` takes confirmed, corrected, overridden or ignored. Give exactly one of `decision_id`,
        `episode_id` and `unit`. With an `idempotency_key` a second call for the same decision counts once, whatever
        process makes it; then the server makes the id, and this returns None.
        """
        keyed = idempotency_key is not None and id is None
        made = _id(id)
        try:
            fields = {
                "metric": metric,
                "value": value,
                "decision_id": decision_id,
                "episode_id": episode_id,
                "unit": unit,
                # With an id or a moment of its own, another process's call under the same key would be a conflict.
                "id": None if keyed else str(made),
                "source": source,
                "observed_at": observed_at or (None if keyed else dt.datetime.now(dt.UTC)),
                "idempotency_key": idempotency_key,
                "supersedes": supersedes,
            }
            self._offer("feedback", made, fields)
        except Exception as error:  # noqa: BLE001 - bookkeeping must not fail the host
            self._fault(error)
        return None if keyed else made

    def recording(self, agent: str, state: Mapping[str, Any] | None = None, **fields: Any) -> recording.Recording:
        """A context that becomes a decision when it ends, with the tool calls and the reasoning inside it.

        Say the action with `recording.act(…)`. An exception is recorded and passes through unchanged; without an action
        there is then an episode and no decision. `fields`: those of `record_decision`, and `session` and `query` of the
        episode.
        """
        return recording.Recording(self, agent, state, fields)

    def recorded(
        self,
        agent: str,
        *,
        state: Callable[..., Mapping[str, Any]] | None = None,
        action: Callable[[Any], Any] | None = None,
        **fields: Any,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorator: each call of the function, plain or async, generator or not, becomes a decision of `agent`.

        `state` makes the state from the arguments, else they are the state by their names; `action` makes the action
        from the result, else it is the action. A generator's result is what it returns, else all that it yielded, as
        one text or as a list; it is recorded when it has been read. Of one that is not read to its end GeneratorExit is
        recorded, and no decision unless `current_recording().act(…)` said one.
        """
        return wrapping.recorded(self, agent, state=state, action=action, fields=fields)

    # Asking

    def decide(
        self,
        agent: str,
        state: Mapping[str, Any],
        *,
        options: Sequence[str] | None = None,
        unit: str | None = None,
        episode: str | None = None,
        step_number: int | None = None,
        external_id: str | None = None,
        item_ref: str | None = None,
        project_ref: str | None = None,
        user_ref: str | None = None,
        id: Id | None = None,
        timeout: float = 10.0,
    ) -> Answer:
        """Asks an agent to decide, and waits at most about `timeout` seconds, tries again included.

        Raises Unavailable when no answer came in time, Refused when the API would refuse it again. The decision has
        its id from here, so that asking again cannot decide twice.
        """
        item = {
            "state": state,
            "id": str(_id(id)),
            "options": options,
            "unit": unit,
            "episode": episode,
            "step_number": step_number,
            "external_id": external_id,
            "item_ref": item_ref,
            "project_ref": project_ref,
            "user_ref": user_ref,
        }
        body = wire.encode({name: value for name, value in item.items() if value is not None})
        reply = self._ask("POST", f"/agents/{agent}/decide", body, timeout)
        answer: Answer = decode(reply.body, Answer)
        return answer

    async def adecide(self, agent: str, state: Mapping[str, Any], **given: Any) -> Answer:
        """`decide`, in a thread of its own pool (at most 32 at once): the event loop goes on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(
            self._asking_threads(), lambda: self.decide(agent, state, **given)
        )

    def get_decision(self, decision_id: Id, *, timeout: float = 10.0) -> dict[str, Any]:
        """A decision with its feedback, labels and rewards. Raises Unavailable, Refused."""
        found: dict[str, Any] = decode(
            self._ask("GET", f"/decisions/{decision_id}", None, timeout).body, dict[str, Any]
        )
        return found

    def _ask(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        if self._transport is None:
            raise ConfigurationError("This client is not enabled: it has nobody to ask.")
        until = time.monotonic() + timeout
        pause = 0.1
        tries = 0
        while True:
            tries += 1
            reply: Reply | None = None
            try:
                reply = self._transport.call(method, path, body, timeout=max(0.05, until - time.monotonic()))
                why = Unavailable(f"{method} {path}: status {reply.status}")
            except Unavailable as error:
                why = error
            if reply is not None and reply.status in {200, 201}:
                return reply
            wait = _jitter.uniform(0, pause)
            if reply is not None:
                refusal = refused(reply)
                # Our own earlier try may be at work still: its decision cannot be seen until it is recorded.
                racing = tries > 1 and refusal.code == "id_conflict"
                if not racing and reply.status < 500 and not reply.later:
                    raise refusal
                wait = max(wait, reply.retry_after or 0.0)
            if time.monotonic() + wait >= until:
                raise why
            time.sleep(wait)
            pause = min(2 * pause, 2.0)

    def _asking_threads(self) -> ThreadPoolExecutor:
        # Without a lock, which a fork could leave held for ever: two loops that meet here have a pool each for once.
        asking = self._asking
        if asking is None or asking[0] != os.getpid():  # a fork leaves an executor without threads
            self._asking = asking = (
                os.getpid(),
                ThreadPoolExecutor(_ASKING_THREADS, thread_name_prefix="reckoner-ask"),
            )
        return asking[1]

    # The queue

    def stats(self) -> Stats:
        """Counts of this process so far."""
        return self._sender.stats() if self._sender else Stats()

    def flush(self, timeout: float = 10.0) -> bool:
        """Waits at most `timeout` seconds until what was recorded before is answered; whether it is."""
        return self._sender.flush(timeout) if self._sender else True

    async def aflush(self, timeout: float = 10.0) -> bool:
        """`flush` for an event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._asking_threads(), self.flush, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Sends what waits, for at most `timeout` seconds, and takes nothing more; whether all of it went.

        Not needed before the process ends: then it happens by itself, within `Sending.exit_seconds`.
        """
        done = self._sender.close(timeout) if self._sender else True
        if self._asking is not None and self._asking[0] == os.getpid():
            self._asking[1].shutdown(wait=False)
        if self._transport is not None:
            self._transport.close()
        return done

    async def aclose(self, timeout: float = 10.0) -> bool:
        """`close` for an event loop."""
        return await asyncio.to_thread(self.close, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def _offer(self, kind: str, item_id: Id, fields: dict[str, Any]) -> None:
        if self._sender is not None:
            given = {name: value for name, value in fields.items() if value is not None}
            self._sender.offer(kind, str(item_id), wire.encode(given))

    def _fault(self, error: BaseException) -> None:
        if self._sender is not None:
            self._sender.count_fault(error)


def _id(given: Id | None) -> uuid.UUID:
    """An id that the host chose, or a fresh one. What is no id at all is replaced: the host is not failed for it."""
    if given is None:
        return uuid7()
    if isinstance(given, uuid.UUID):
        return given
    try:
        return uuid.UUID(given)
    except (ValueError, TypeError, AttributeError):
        return uuid7()
