"""The one thread that owns the models, and the queue in front of it.

Requests come from the event loop as futures. Whatever waits when the thread is free is served together, so batches grow
with the load; under load the thread also waits a few milliseconds for more. Scores that need no loading are answered
between two tokens of a running generation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from training.engine.serving.chat import ChatAnswer, ChatRequest, Generation, Row, prepare
from training.engine.serving.faults import Fault
from training.engine.serving.pool import LoadedBase, ModelPool
from training.engine.serving.scoring import Answer, Question, score

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.004
SCORE_ITEMS = 64  # gathered into one pass; one request may hold more
CHAT_ROWS = 32
WAITING_JOBS = 1024  # beyond it the server says so instead of letting callers time out

INTERNAL = Fault("internal_error", "the request failed; the server's log has the reason")

T = TypeVar("T")
P = TypeVar("P")


@dataclass(slots=True, eq=False)
class Job(Generic[P, T]):
    payload: P
    future: Future[T]


ScoreJob = Job[Sequence[Question], list[Answer]]
ChatJob = Job[ChatRequest, ChatAnswer]
LoadJob = Job[str, None]


class ModelThread:
    """Started with `start`, ended with `stop`. `submit_…` may be called from any thread; raises Fault when full."""

    def __init__(self, pool: ModelPool) -> None:
        self.pool = pool
        self._scores: deque[ScoreJob] = deque()
        self._chats: deque[ChatJob] = deque()
        self._loads: deque[LoadJob] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._crowded = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Ends after the current forward pass; what still waits is answered with `shutting_down`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(patience)

    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopping

    def waiting(self) -> int:
        return len(self._scores) + len(self._chats) + len(self._loads)

    def submit_score(self, questions: Sequence[Question]) -> Future[list[Answer]]:
        return self._submit(self._scores, questions)

    def submit_chat(self, request: ChatRequest) -> Future[ChatAnswer]:
        return self._submit(self._chats, request)

    def submit_load(self, digest: str) -> Future[None]:
        return self._submit(self._loads, digest)

    def _submit(self, queue: deque[Job[P, T]], payload: P) -> Future[T]:
        job: Job[P, T] = Job(payload, Future())
        with self._changed:
            if self._stopping:
                raise Fault("shutting_down", "the model server is stopping")
            if self.waiting() >= WAITING_JOBS:
                raise Fault("overloaded", "too many requests are waiting; try again in a second")
            queue.append(job)
            self._changed.notify()
        return job.future

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._stopping or self.waiting()):
                    self._changed.wait()
                if self._stopping:
                    break
            # One of each kind in turn: none can starve the others.
            self._serve_loads()
            self._serve_scores(self._gather_scores())
            self._serve_chats()
        for queue in (self._scores, self._chats, self._loads):
            _fail(_take(queue, len(queue)), Fault("shutting_down", "the model server is stopping"))

    def _gather_scores(self) -> list[ScoreJob]:
        """Waiting score jobs, up to SCORE_ITEMS items. An idle server answers at once; a busy one waits for more."""
        deadline = time.monotonic() + GATHER_SECONDS
        with self._changed:
            jobs = self._take_scores(lambda _: True)
            items = sum(len(job.payload) for job in jobs)
            while jobs and self._crowded and items < SCORE_ITEMS and not self._stopping:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
                more = self._take_scores(lambda _: True, SCORE_ITEMS - items)
                jobs += more
                items += sum(len(job.payload) for job in more)
        if jobs:
            self._crowded = len(jobs) > 1
        return jobs

    def _take_scores(self, fits: Callable[[ScoreJob], bool], room: int = SCORE_ITEMS) -> list[ScoreJob]:
        """Removes and returns jobs from the front that fit, at least one if the first does. Hold the lock."""
        jobs: list[ScoreJob] = []
        while self._scores and fits(self._scores[0]) and (not jobs or room >= len(self._scores[0].payload)):
            job = self._scores.popleft()
            room -= len(job.payload)
            if job.future.set_running_or_notify_cancel():
                jobs.append(job)
        return jobs

    def _serve_scores(self, jobs: Sequence[ScoreJob]) -> None:
        if not jobs:
            return
        try:
            answers = score(self.pool, [question for job in jobs for question in job.payload])
        except Exception:
            log.exception("a batch of %d score requests failed", len(jobs))
            if len(jobs) == 1:
                _fail(jobs, INTERNAL)
            else:  # each alone, so that one request's fault does not affect the others
                for job in jobs:
                    self._serve_scores([job])
            return
        start = 0
        for job in jobs:
            job.future.set_result(answers[start : start + len(job.payload)])
            start += len(job.payload)

    def _serve_resident_scores(self) -> None:
        """Between two tokens: scores that load nothing and so cannot disturb the generation's own model."""
        with self._changed:
            jobs = self._take_scores(lambda job: all(self.pool.is_resident(item.model) for item in job.payload))
        self._serve_scores(jobs)

    def _serve_loads(self) -> None:
        for job in _take(self._loads, 1):
            try:
                base = self.pool.base(self.pool.base_of(job.payload))
                if job.payload != base.artifact.digest:
                    for fault in self.pool.require_adapters(base, [job.payload]).values():
                        raise fault
            except Fault as fault:
                _fail([job], fault)
            except Exception:
                log.exception("loading %s failed", job.payload)
                _fail([job], INTERNAL)
            else:
                job.future.set_result(None)

    def _serve_chats(self) -> None:
        by_base: dict[str, list[ChatJob]] = defaultdict(list)
        for job in self._gather_chats():
            try:
                by_base[self.pool.base_of(job.payload.model)].append(job)
            except Fault as fault:
                _fail([job], fault)
        for digest, jobs in by_base.items():
            # Distinct adapters of one batch have to fit in memory together.
            for start in range(0, len(jobs), self.pool.max_adapters):
                self._generate(digest, jobs[start : start + self.pool.max_adapters])

    def _gather_chats(self) -> list[ChatJob]:
        """Waiting chats, up to CHAT_ROWS. Who comes later than this short wait waits for the others' whole answers."""
        deadline = time.monotonic() + GATHER_SECONDS
        with self._changed:
            while self._chats and len(self._chats) < CHAT_ROWS and not self._stopping:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
        return _take(self._chats, CHAT_ROWS)

    def _generate(self, digest: str, jobs: Sequence[ChatJob]) -> None:
        try:
            base = self.pool.base(digest)
            rows = self._prepare(base, jobs)
            if rows:
                for _ in Generation(base, [row for _, row in rows]).steps():
                    if self._stopping:
                        raise Fault("shutting_down", "the model server is stopping")
                    self._serve_resident_scores()
                    rows = _deliver(rows)
        except Fault as fault:
            _fail(jobs, fault)
        except Exception:
            log.exception("a batch of %d chat requests failed", len(jobs))
            _fail(jobs, INTERNAL)

    def _prepare(self, base: LoadedBase, jobs: Sequence[ChatJob]) -> list[tuple[ChatJob, Row]]:
        faults = self.pool.require_adapters(
            base, (job.payload.model for job in jobs if job.payload.model != base.artifact.digest)
        )
        rows: list[tuple[ChatJob, Row]] = []
        for job in jobs:
            try:
                if fault := faults.get(job.payload.model):
                    raise fault
                rows.append((job, prepare(base, job.payload)))
            except Fault as fault:
                _fail([job], fault)
        return rows


def _deliver(rows: list[tuple[ChatJob, Row]]) -> list[tuple[ChatJob, Row]]:
    """Answers finished rows at once and returns the others: the short need not wait for the long."""
    for job, row in rows:
        if row.fault:
            job.future.set_exception(row.fault)
        elif row.finish_reason:
            job.future.set_result(row.answer())
    return [(job, row) for job, row in rows if not row.finish_reason]


def _take(queue: deque[Job[P, T]], count: int) -> list[Job[P, T]]:
    """Up to `count` jobs from the front, without those whose caller has gone. Only the model thread removes jobs."""
    jobs = [queue.popleft() for _ in range(min(count, len(queue)))]
    return [job for job in jobs if job.future.set_running_or_notify_cancel()]


def _fail(jobs: Iterable[Job[Any, Any]], fault: Fault) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(fault)
