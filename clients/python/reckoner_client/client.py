"""The client that a program uses. Recording returns at once and never fails; asking waits and may fail."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar
from urllib.parse import quote

import msgspec

from reckoner_client.errors import ConfigurationError, Refused, Unavailable
from reckoner_client.following import name_of, record_runs
from reckoner_client.recorder import Id, Recorder, as_id
from reckoner_client.recording import Recording
from reckoner_client.replies import LATER, decode, refused
from reckoner_client.sender import Sender, Sending, Stats
from reckoner_client.transport import Transport
from reckoner_client.wire import encode

VERSION = "0.1.0"
P = ParamSpec("P")
R = TypeVar("R")
_jitter = random.SystemRandom()


class Answer(msgspec.Struct, frozen=True):
    """What an agent decided; it is in the ledger as `decision_id`.

    `action`: the option; of other kinds of agents the object, the text, or the list of options or tool calls.
    `probabilities`: of each option under the policy that acted, in [0, 1], sum 1 (of a ranking those of the first
    place); `propensity` is the action's. Both are None where the model wrote the action; `logprob` is then what its
    tokens add up to, where its server tells that. `confidence`: the model's own probability of the action. `variant`
    and `assignment_probability` are None outside experiments. `fallback`: the control answered for a treatment that
    could not.
    """

    decision_id: uuid.UUID
    action: Any
    probabilities: dict[str, float] | None
    propensity: float | None
    confidence: float | None
    model_version: str
    logprob: float | None = None
    variant: str | None = None
    assignment_probability: float | None = None
    fallback: bool = False


class _Agent(msgspec.Struct):
    slug: str


class _Agents(msgspec.Struct):
    """The first page of agents."""

    results: list[_Agent]


class Reckoner(Recorder):
    """A connection to one workspace of a Reckoner. Safe for threads, event loops and forks; make one a process.

    url: of the API, `http://host:8000/api/v1`; without a path `/api/v1` is added. RECKONER_URL where it is not given.
    key: an API key with the scopes of what is called. RECKONER_KEY where it is not given. A function is asked for it
    before each request, so that a rotated key is taken up without a restart.
    policy_name: who acted in recorded decisions that do not say.
    on_refused: called in the background thread with each item that the API did not keep.
    sending: queue, batches, retries.
    enabled: False records nothing, sends nothing and needs neither address nor key: for a host's own tests.

    Raises ConfigurationError without address or key. After that, nothing that records raises.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | Callable[[], str] | None = None,
        *,
        policy_name: str | None = None,
        on_refused: Callable[[Refused], None] | None = None,
        sending: Sending | None = None,
        enabled: bool = True,
    ) -> None:
        self._transport = Transport(url, key, version=VERSION) if enabled else None
        super().__init__(Sender(self._transport, sending or Sending(), on_refused), policy_name)

    def check_agent(self, agent: str, *, timeout: float = 2.0) -> None:
        """Raises ConfigurationError when the API answers that there is no such agent, with those that there are. It
        says nothing when nobody answers in time, or when the key may not read agents (scope `export:read`): what is
        recorded then goes to `on_refused`."""
        if self._transport is None:
            return
        try:
            reply = self._transport.call(f"/agents/{quote(agent, safe='')}", None, timeout=timeout)
            if reply.status != 404 or refused(reply).code != "unknown_agent":
                return
            listed = decode(self._transport.call("/agents", None, timeout=timeout).body, _Agents).results
        except Unavailable:
            return
        there = ", ".join(sorted(one.slug for one in listed)) or "none yet"
        raise ConfigurationError(
            f"Reckoner has no agent {agent!r} in the workspace of this key. It has: {there}. Create the agent, or give "
            "the slug of another as name."
        )

    def recording(self, agent: str, state: Mapping[str, Any] | None = None, **fields: Any) -> Recording:
        """A context that becomes a decision when it ends, with the tool calls and the reasoning inside it.

        Say the action with `recording.act(…)`. An exception is recorded and passes through unchanged; without an action
        there is then an episode and no decision. `fields`: those of `record_decision`, and `session` and `query` of the
        episode.
        """
        return Recording(self, agent, state, fields)

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

        return lambda function: record_runs(
            function, self, agent, state, action, {"policy_name": name_of(function)} | fields
        )

    def decide(
        self, agent: str, state: Mapping[str, Any], *, id: Id | None = None, timeout: float = 10.0, **fields: Any
    ) -> Answer:
        """Asks an agent to decide, and waits at most about `timeout` seconds, tries again included.

        `fields`: the API's, `options`, `unit`, … Raises Unavailable when no answer came in time, Refused when the API
        would refuse it again. The decision has its id from here, so that asking again cannot decide twice.
        """
        if self._transport is None:
            raise ConfigurationError("This client is not enabled: it has nobody to ask.")
        path, body = f"/agents/{agent}/decide", encode({"state": state, **fields, "id": str(as_id(id))})
        until, longest = time.monotonic() + timeout, 0.1
        while True:
            wait = _jitter.uniform(0, min(longest, 2.0))
            try:
                reply = self._transport.call(path, body, timeout=max(0.05, until - time.monotonic()))
                if reply.status in {200, 201}:
                    answer: Answer = decode(reply.body, Answer)
                    return answer
                refusal = refused(reply)
                # Our own earlier try may be at work still: its decision cannot be seen until it is recorded.
                racing = longest > 0.1 and refusal.code == "id_conflict"
                if not racing and reply.status < 500 and reply.status not in LATER:
                    raise refusal
                why = Unavailable(f"{path}: status {reply.status}")
                wait = max(wait, reply.retry_after)
            except Unavailable as error:
                why = error
            if time.monotonic() + wait >= until:
                raise why
            time.sleep(wait)
            longest *= 2

    def stats(self) -> Stats:
        """Counts of this process so far."""
        return self.sender.stats()

    def flush(self, timeout: float = 10.0) -> bool:
        """Waits at most `timeout` seconds until what was recorded before is answered; whether it is."""
        return self.sender.flush(timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Sends what waits, for at most `timeout` seconds, and takes nothing more; whether all of it went.

        Not needed before the process ends: then it happens by itself, within `Sending.exit_seconds`.
        """
        return self.sender.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
