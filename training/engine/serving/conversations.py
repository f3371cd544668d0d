"""All chats that are being answered: who joins, who grows, who has left. Owned by the model thread.

Each base with growing answers has a generation. Between two tokens waiting chats join it, in the order they came, as
long as their models fit in memory beside those that answer. A chat whose caller has left frees its rows before the next
token.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from training.engine.serving.chat import Begun, ChatAnswer, ChatRequest, Row, Tell, prepare
from training.engine.serving.choices import choose
from training.engine.serving.faults import Fault
from training.engine.serving.generation import Generation
from training.engine.serving.jobs import INTERNAL, Job, fail
from training.engine.serving.pool import LoadedBase, ModelPool

log = logging.getLogger(__name__)

CHAT_ROWS = 32
PROMPT_TOKENS = 4096
"""Prompts of at most so many tokens (or a single longer one) are read between two tokens of the others."""
LEFT = Fault("invalid_request", "the caller has left")


@dataclass(slots=True, eq=False)
class ChatJob(Job[ChatRequest, ChatAnswer]):
    """`tell` hears of every piece. `leave` may be called from any thread: nobody waits for the answer any more."""

    future: Future[ChatAnswer] = field(default_factory=Future)
    tell: Tell | None = None
    left: bool = False
    begun: bool = False
    rows: list[Row] = field(default_factory=list)

    def leave(self) -> None:
        self.left = True
        self.future.cancel()


class Conversations:
    """`admit` and `step` in turn. Pins in the pool what the growing answers need."""

    def __init__(self, pool: ModelPool) -> None:
        self._pool = pool
        self._jobs: list[ChatJob] = []
        self._generations: dict[str, Generation] = {}

    def rows(self) -> int:
        """Answers that are growing. Other threads may ask."""
        return sum(len(job.rows) for job in list(self._jobs))

    def admit(self, queue: deque[ChatJob]) -> None:
        """Takes jobs from the front of the queue while there is room, and draws the first token of each."""
        room = CHAT_ROWS - self.rows()
        joining: dict[str, list[ChatJob]] = defaultdict(list)
        taken: list[str] = []
        tokens = 0
        while queue and tokens < PROMPT_TOKENS:
            job = queue[0]
            if not job.left and (job.payload.count > room or not self._pool.fits([*taken, job.payload.model])):
                break
            queue.popleft()
            if job.left or not job.future.set_running_or_notify_cancel():
                continue
            base = self._read(job)
            if base is not None:
                joining[base].append(job)
                taken.append(job.payload.model)
                self._pool.pinned |= {base, job.payload.model}
                room -= len(job.rows)
                tokens += sum(len(row.prompt_ids) for row in job.rows)
        for base, jobs in joining.items():
            self._join(base, jobs)
        if joining:
            self._settle()

    def step(self) -> None:
        """One more token for every answer."""
        self._forget(job for job in self._jobs if job.left)
        for digest, generation in list(self._generations.items()):
            try:
                self._keep_adapters(generation)
                generation.step()
            except Exception:
                jobs = [job for job in self._jobs if self._pool.base_of(job.payload.model) == digest]
                log.exception("generation for %d chats failed", len(jobs))
                fail(jobs, INTERNAL)
                self._forget(jobs)
        self._settle()

    def fail_all(self, fault: Fault) -> None:
        fail(self._jobs, fault)
        self._forget(list(self._jobs))
        self._settle()

    def _read(self, job: ChatJob) -> str | None:
        """Loads what the job needs and makes its rows; the digest of its base, or None when it failed."""
        model = job.payload.model
        try:
            digest = self._pool.base_of(model)
            base = self._pool.base(digest)
            if model != digest:
                for fault in self._pool.require_adapters(base, [model]).values():
                    raise fault
            job.rows = prepare(base, job.payload)
        except Fault as fault:
            fail([job], fault)
        except Exception:
            log.exception("a chat request could not be read")
            fail([job], INTERNAL)
        else:
            return digest
        return None

    def _join(self, digest: str, jobs: Sequence[ChatJob]) -> None:
        rows = [row for job in jobs for row in job.rows]
        self._jobs += jobs
        try:
            base = self._pool.base(digest)
            self._require(base, rows)
            rows = [row for row in rows if not row.ended]
            if choosing := [row for row in rows if row.request.choices]:
                choose(base, choosing)
            if growing := [row for row in rows if not row.request.choices]:
                self._generations.setdefault(digest, Generation(base)).join(growing)
        except Exception:
            log.exception("%d chats could not join", len(jobs))
            fail(jobs, INTERNAL)
            self._forget(jobs)

    def _keep_adapters(self, generation: Generation) -> None:
        """An adapter that could not be attached may have cost the base its others."""
        self._require(generation.base, generation.rows)
        generation.leave(lambda row: row.ended)

    def _require(self, base: LoadedBase, rows: Sequence[Row]) -> None:
        wanted = {row.request.model for row in rows} - {base.artifact.digest} - base.adapters.keys()
        faults = self._pool.require_adapters(base, wanted) if wanted else {}
        for row in rows:
            row.fault = row.fault or faults.get(row.request.model)

    def _settle(self) -> None:
        """Tells what is new, lets go of who has ended, and pins what the others need."""
        for job in self._jobs:
            _deliver(job)
        self._forget([job for job in self._jobs if job.left or job.future.done()])
        self._generations = {digest: one for digest, one in self._generations.items() if one.rows}
        models = {job.payload.model for job in self._jobs}
        self._pool.pinned = frozenset(models | {self._pool.base_of(model) for model in models})

    def _forget(self, jobs: Iterable[ChatJob]) -> None:
        gone = set(jobs)
        if not gone:
            return
        fail(gone, LEFT)
        rows = {id(row) for job in gone for row in job.rows}
        for generation in self._generations.values():
            generation.leave(lambda row: id(row) in rows)
        self._jobs = [job for job in self._jobs if job not in gone]


def _deliver(job: ChatJob) -> None:
    """A fault of one answer is the whole request's."""
    if job.left or job.future.done():
        return
    for row in job.rows:
        if row.fault is not None:
            fail([job], row.fault)
            return
    if job.tell is not None:
        if not job.begun:
            job.begun = True
            job.tell(Begun(len(job.rows[0].prompt_ids)))
        for row in job.rows:
            if not row.told and (piece := row.piece()) is not None:
                job.tell(piece)
    if all(row.written is not None for row in job.rows):
        job.future.set_result(
            ChatAnswer(len(job.rows[0].prompt_ids), tuple(row.written for row in job.rows if row.written is not None))
        )
