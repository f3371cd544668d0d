"""The weights in training, as what answers chats: one thread owns the model, and trains it when nobody is answered.

`answer_until` runs in the training thread, so weights never change while an answer grows, and every token is of the
weights whose hash was given. Calls come from the threads of the HTTP server and grow in one batch. Each answer is drawn
by a generator of its own, seeded by task, episode and number of the call; beside other rows sums are rounded
differently, so two runs may differ in what they draw, and no token is ever told with another's probability.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training.engine.attempt.attempt import Attempt
from training.engine.models.actions import ActionScorer
from training.engine.models.chats import find_ends
from training.engine.models.loading import Loaded
from training.engine.served.transcripts import Growing, Message, Transcript, Written, find_earlier
from training.engine.serving.artifacts import Artifact
from training.engine.serving.chat import ChatAnswer, ChatRequest, Row, encode, make_rows, prepare, render_after
from training.engine.serving.constraints import Grammars
from training.engine.serving.faults import Fault
from training.engine.serving.generation import Generation
from training.engine.serving.jobs import STOPPING
from training.engine.serving.pool import LoadedBase
from training.engine.serving.sampling import Sampling
from training.engine.serving.tools import read_calls

ROWS = 64
"""Answers that grow beside each other; more wait."""
POLL = 0.2
"""Seconds between two looks at whether the run is to stop."""


@dataclass(slots=True)
class _InTraining(LoadedBase):
    """The model as `generation` wants it. Its own adapter is the active one, whatever a row asks for."""

    def rows(self, digests: object) -> None:
        return None


@dataclass(eq=False)
class Session:
    """One episode's calls. `seed` makes its draws."""

    key: str
    seed: str
    growing: list[Growing] = field(default_factory=list)
    asked: int = 0
    open: bool = True

    def transcripts(self, weights_hash: str) -> tuple[Transcript, ...]:
        return tuple(
            Transcript(tuple(one.token_ids), tuple(one.log_p), weights_hash, one.began, one.calls)
            for one in self.growing
        )


@dataclass(eq=False)
class Call:
    """A request on its way. `earlier`, of `length` tokens when it was read, is what it goes on with; else `began` says
    why nothing."""

    session: Session
    request: ChatRequest
    future: Future[ChatAnswer] = field(default_factory=Future)
    row: Row | None = None
    earlier: Growing | None = None
    length: int = 0
    began: str = ""


class Policy:
    """`submit` may be called from any thread; everything else from the one that trains."""

    def __init__(self, attempt: Attempt, loaded: Loaded, *, greedy: bool = False) -> None:
        """`greedy`: at temperature 0 instead of the spec's, of a model that is not in training."""
        self.attempt, self.model, self.greedy = attempt, loaded.model, greedy
        self.base = _as_base(attempt, loaded)
        self.generation = Generation(self.base)
        self._sessions: dict[str, Session] = {}
        self._waiting: deque[Call] = deque()
        self._growing: list[Call] = []
        self._changed = threading.Condition()

    @contextmanager
    def session(self, seed: str) -> Iterator[Session]:
        """For as long as an episode lasts. From its thread."""
        session = Session(secrets.token_urlsafe(24), seed)
        self._sessions[session.key] = session
        try:
            yield session
        finally:
            self._close([session])

    def find_session(self, key: str) -> Session:
        """Raises Fault for a key that is no episode's, or of one that is over."""
        if (session := self._sessions.get(key)) is None:
            raise Fault("unauthorised", "send the key of an episode that runs as Authorization: Bearer …")
        return session

    def submit(self, session: Session, request: ChatRequest) -> Future[ChatAnswer]:
        """Raises Fault for what would make the answer another policy's than the one that is trained."""
        refuse_other_policies(request)
        call = Call(session, replace(request, sampling=self._sampling()))
        with self._changed:
            if not session.open:
                raise Fault(STOPPING.code, STOPPING.message)
            self._waiting.append(call)
            self._changed.notify()
        return call.future

    def wake(self) -> None:
        """Looks anew at whether the episodes are over."""
        with self._changed:
            self._changed.notify()

    def answer_until(self, over: Callable[[], bool], step: int) -> None:
        """Answers calls until `over()`. Raises Stopped where the run was asked to stop, after `step` updates."""
        try:
            while not over():
                if self.attempt.processes.count == 1:
                    self.attempt.stop.check(step)
                with self._changed:
                    if not self._waiting and not self._growing:
                        self._changed.wait(POLL)
                    room = ROWS - len(self._growing)
                    calls = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
                self._step(calls)
        finally:
            self._fail_all()

    def _step(self, calls: list[Call]) -> None:
        """Lets calls join, draws one more token for every answer, and hands over those that have ended."""
        joining = [call for call in calls if self._begin(call)]
        with self.attempt.autocast(self.model):
            if joining:
                self._growing += joining
                self.generation.join([call.row for call in joining if call.row is not None])
                self._hand_over()
            if self._growing:
                self.generation.step()
        self._hand_over()

    def _begin(self, call: Call) -> bool:
        """Makes the call's row; False where it is refused."""
        try:
            call.row = self._row_of(call)
        except Fault as fault:
            call.future.set_exception(fault)
        return call.row is not None

    def _row_of(self, call: Call) -> Row:
        spec, session, base = self.attempt.spec, call.session, self.base
        wanted = call.request.max_tokens or spec.max_completion_tokens
        drawn = hashlib.sha256(f"{session.seed}/{session.asked}".encode()).digest()
        seed = int.from_bytes(drawn[:7], "big")
        session.asked += 1
        request = replace(call.request, seed=seed, max_tokens=min(wanted, spec.max_completion_tokens))
        ids, call.began, call.earlier = self._continue(session, request)
        row = prepare(base, request)[0] if ids is None else make_rows(base, request, ids)[0]
        if len(row.prompt_ids) > spec.max_prompt_tokens:
            raise Fault(
                "context_length_exceeded",
                f"This model's maximum context length is {spec.max_prompt_tokens} tokens of messages, the run's "
                f"max_prompt_tokens; these are {len(row.prompt_ids)} tokens",
                "messages",
            )
        call.length = len(call.earlier.token_ids) if call.earlier is not None else 0
        return row

    def _continue(self, session: Session, request: ChatRequest) -> tuple[list[int] | None, str, Growing | None]:
        """The prompt's tokens and the transcript that they go on with; else why a new one begins."""
        earlier = find_earlier(session.growing, request.messages, _tools_of(request))
        if isinstance(earlier, str):
            return None, earlier, None
        try:
            after = render_after(self.base, request, len(earlier.messages) - 1)
        except Fault as fault:
            return None, fault.message, None
        last = earlier.token_ids[-1]
        if last in self.base.ends:
            ended: str = self.base.tokenizer.decode([last])
            if not after.startswith(ended):
                return None, "the model did not end its answer as the chat template does", None
            after = after.removeprefix(ended)
        return [*earlier.token_ids, *encode(self.base, after)], "", earlier

    def _hand_over(self) -> None:
        ended = [call for call in self._growing if call.row is not None and call.row.ended]
        for call in ended:
            self._growing.remove(call)
            assert call.row is not None
            if call.row.fault is not None:
                call.future.set_exception(call.row.fault)
            elif not call.session.open:
                call.future.set_exception(STOPPING)
            else:
                self._keep(call, call.row)
        gone = {id(call.row) for call in self._growing if not call.session.open}
        if gone:
            self.generation.leave(lambda row: id(row) in gone)
            for call in [call for call in self._growing if id(call.row) in gone]:
                self._growing.remove(call)
                call.future.set_exception(STOPPING)

    def _keep(self, call: Call, row: Row) -> None:
        """Puts the answer into its transcript before its agent sees it."""
        assert row.written is not None
        growing = call.earlier
        if growing is None or len(growing.token_ids) != call.length:
            began = call.began if growing is None else "two calls at once go on with the same answer"
            growing = Growing(began, _tools_of(call.request))
            call.session.growing.append(growing)
        answer = _as_message(row.written.text, call.request)
        growing.add(call.request.messages, answer, row.prompt_ids, Written(row.tokens, row.policy_log_ps))
        call.future.set_result(ChatAnswer(len(row.prompt_ids), (row.written,)))

    def _fail_all(self) -> None:
        """What still waits when the episodes are over, or the run ends, is refused, and nothing is taken any more."""
        self._close(list(self._sessions.values()))
        with self._changed:
            left = [*self._growing, *self._waiting]
            self._waiting.clear()
        self._growing = []
        self.generation.leave(lambda row: True)
        for call in left:
            call.future.set_exception(STOPPING)

    def _close(self, sessions: list[Session]) -> None:
        with self._changed:
            for session in sessions:
                session.open = False
                self._sessions.pop(session.key, None)

    def _sampling(self) -> Sampling:
        return Sampling(temperature=0.0 if self.greedy else self.attempt.spec.sampling.temperature)


def refuse_other_policies(request: ChatRequest) -> None:
    """Raises Fault for a form of the answer, a bias or several answers. Temperature, top_p and seed are the run's own:
    what a request says of them does not matter."""
    forced = request.toolbox is not None and request.toolbox.forced
    for field_name, given in (
        ("n", request.count > 1),
        ("logit_bias", bool(request.sampling.bias)),
        ("response_format", request.grammar is not None),
        ("structured_outputs.choice", bool(request.choices)),
        ("tool_choice", forced),
        ("max_prompt_tokens", request.max_prompt_tokens is not None),
    ):
        if given:
            raise Fault(
                "unsupported_parameter",
                f"{field_name}: the policy in training answers freely, once, and reads all messages; leave it out",
                field_name,
            )


def _as_base(attempt: Attempt, loaded: Loaded) -> LoadedBase:
    model, tokenizer = loaded.model, loaded.tokenizer
    ends = find_ends(model, tokenizer)
    vocabulary = int(model.get_output_embeddings().weight.shape[0])
    positions = int(getattr(model.config, "max_position_embeddings", None) or 2048)
    return _InTraining(
        Artifact("policy", "model", None, Path(), {}, 0),
        model,
        tokenizer,
        ActionScorer(tokenizer, attempt.spec.max_prompt_tokens, attempt.device),
        positions,
        ends,
        vocabulary,
        Grammars(tokenizer, vocabulary, ends),
    )


def _tools_of(request: ChatRequest) -> tuple[Any, ...]:
    return () if request.toolbox is None or request.toolbox.choice == "none" else request.toolbox.tools


def _as_message(text: str, request: ChatRequest) -> Message:
    """The answer as its agent will send it back, once it has been parsed."""
    tools = _tools_of(request)
    words, calls = read_calls(text, tools) if tools else (text, [])
    message: dict[str, Any] = {"role": "assistant", "content": words}
    if calls:
        message["tool_calls"] = [
            {"id": None, "type": "function", "function": {"name": call.name, "arguments": json.loads(call.arguments)}}
            for call in calls
        ]
    return message
