"""The one thread that owns the models, and the queue in front of it.

Requests come from the event loop as futures. Whatever waits when the thread is free is served together, so batches grow
with the load; under load the thread also waits a few milliseconds for more scores. Scores are answered, and chats
begin, between two tokens of the chats that are being answered.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from training.engine.serving.chat import ChatRequest, Tell
from training.engine.serving.conversations import ChatJob, Conversations
from training.engine.serving.faults import Fault
from training.engine.serving.jobs import INTERNAL, STOPPING, Job, fail
from training.engine.serving.pool import ModelPool
from training.engine.serving.scoring import Answer, Question, score

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.004
SCORE_ITEMS = 64  # gathered into one pass; one request may hold more
WAITING_JOBS = 1024  # beyond it the server says so instead of letting callers time out

ScoreJob = Job[Sequence[Question], list[Answer]]
LoadJob = Job[str, None]
J = TypeVar("J", bound=Job[Any, Any])


class ModelThread:
    """Started with `start`, ended with `stop`. `submit_…` may be called from any thread; raises Fault when full."""

    def __init__(self, pool: ModelPool) -> None:
        self.pool = pool
        self._scores: deque[ScoreJob] = deque()
        self._chats: deque[ChatJob] = deque()
        self._conversations = Conversations(pool)
        self._loads: deque[LoadJob] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._last_jobs = 0
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

    def answering(self) -> int:
        """Chats' answers that are growing."""
        return self._conversations.rows()

    def submit_score(self, questions: Sequence[Question]) -> Future[list[Answer]]:
        job: ScoreJob = Job(questions, Future())
        self._submit(self._scores, job)
        return job.future

    def submit_chat(self, request: ChatRequest, tell: Tell | None = None) -> ChatJob:
        """`tell` hears of the answer while it grows, in the model thread."""
        job = ChatJob(request, tell=tell)
        self._submit(self._chats, job)
        return job

    def submit_load(self, digest: str) -> Future[None]:
        job: LoadJob = Job(digest, Future())
        self._submit(self._loads, job)
        return job.future

    def _submit(self, queue: deque[J], job: J) -> None:
        with self._changed:
            if self._stopping:
                raise Fault(STOPPING.code, STOPPING.message)
            if self.waiting() >= WAITING_JOBS:
                raise Fault("overloaded", "too many requests are waiting; try again in a second")
            queue.append(job)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._stopping or self.waiting() or self.answering()):
                    self._changed.wait()
                if self._stopping:
                    break
            # One of each kind in turn, then a token for every chat: none can starve the others.
            self._serve_load()
            self._serve_scores(self._gather_scores())
            if not self._is_blocked():
                self._conversations.admit(self._chats)
            self._conversations.step()
        self._conversations.fail_all(STOPPING)
        for queue in (self._scores, self._chats, self._loads):
            while queue:
                fail([queue.popleft()], STOPPING)

    def _fits(self, digests: Collection[str]) -> bool:
        """Whether these can be used now: what the growing answers need must stay in memory."""
        return not self.pool.pinned or all(map(self.pool.is_resident, digests)) or self.pool.fits(digests)

    def _is_blocked(self) -> bool:
        """Whether a load or a score waits for room that growing answers take: then no chat joins them until it had its
        turn, so that it waits for the longest of them and no longer."""
        return (bool(self._loads) and not self._fits([self._loads[0].payload])) or (
            bool(self._scores) and not self._fits(_models(self._scores[0]))
        )

    def _gather_scores(self) -> list[ScoreJob]:
        """Waiting score jobs, up to SCORE_ITEMS items. Where several were served last, it waits for as many again, as
        their callers may be about to ask; an idle server answers at once, and one with chats goes on with them."""
        deadline = time.monotonic() + GATHER_SECONDS
        with self._changed:
            jobs = self._take_scores(SCORE_ITEMS)
            items = sum(len(job.payload) for job in jobs)
            while 0 < len(jobs) < self._last_jobs and items < SCORE_ITEMS and not (self._stopping or self.answering()):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
                more = self._take_scores(SCORE_ITEMS - items)
                jobs += more
                items += sum(len(job.payload) for job in more)
        if jobs:
            self._last_jobs = len(jobs)
        return jobs

    def _take_scores(self, room: int) -> list[ScoreJob]:
        """Removes and returns jobs from the front that fit, at least one if the first does. Hold the lock."""
        jobs: list[ScoreJob] = []
        while self._scores and self._fits(_models(self._scores[0])):
            if jobs and room < len(self._scores[0].payload):
                break
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
                fail(jobs, INTERNAL)
            else:  # each alone, so that one request's fault does not affect the others
                for job in jobs:
                    self._serve_scores([job])
            return
        start = 0
        for job in jobs:
            job.future.set_result(answers[start : start + len(job.payload)])
            start += len(job.payload)

    def _serve_load(self) -> None:
        if not self._loads or not self._fits([self._loads[0].payload]):
            return
        job = self._loads.popleft()
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            if (classifier := self.pool.find_classifier(job.payload)) is not None:
                self.pool.classifiers.get(classifier)
                job.future.set_result(None)
                return
            base = self.pool.base(self.pool.base_of(job.payload))
            if job.payload != base.artifact.digest:
                for fault in self.pool.require_adapters(base, [job.payload]).values():
                    raise fault
        except Fault as fault:
            fail([job], fault)
        except Exception:
            log.exception("loading %s failed", job.payload)
            fail([job], INTERNAL)
        else:
            job.future.set_result(None)


def _models(job: ScoreJob) -> set[str]:
    return {question.model for question in job.payload}
