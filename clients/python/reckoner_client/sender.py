"""The bounded queue and the thread behind it: batches, retries, refusals, exits and forks.

The host's side is `offer`: it appends under a lock and returns. One daemon thread, started by the first item and ended
by half a minute without one, takes batches, sends them, and tries again until they are answered. Items carry ids, so
an answer that was lost costs a repeat and nothing else.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import random
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from reckoner_client.errors import FieldFault, Refusal, Unavailable
from reckoner_client.transport import Reply, Transport, refused

__all__ = ["Sender", "Sending", "Stats"]

logger = logging.getLogger("reckoner_client")

# A batch's kinds go out in this order: what is said about a decision comes after it.
KINDS = ("decisions", "steps", "episodes", "feedback")
MAX_ITEM_BYTES = 9 * 1024 * 1024
_SPLIT = frozenset({400, 413, 422})
_IDLE_SECONDS = 30.0
_WARN_SECONDS = 60.0
_jitter = random.SystemRandom()  # has no state that a forked child would share


@dataclass(frozen=True, slots=True)
class Sending:
    """How recorded items travel. The defaults suit a web process.

    batch_items, batch_bytes: a request's most; the API takes 1,000 and 10 MB.
    linger_seconds: how long the first item of a batch waits for others.
    queue_items, queue_bytes: what may wait in memory, with what is under way. What comes on top is dropped.
    first_pause_seconds, longest_pause_seconds: before try n+1 passes a random time up to first · 2ⁿ, at most longest;
    at least what `Retry-After` says.
    faulty_tries: how often a batch is sent to a server that answers 500 before its items are tried one by one.
    request_seconds: to wait for an answer.
    exit_seconds: what the process's end may wait for the queue; 0 forgets it.
    """

    batch_items: int = 500
    batch_bytes: int = 4 * 1024 * 1024
    linger_seconds: float = 0.5
    queue_items: int = 10_000
    queue_bytes: int = 64 * 1024 * 1024
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 30.0
    faulty_tries: int = 3
    request_seconds: float = 10.0
    exit_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.batch_items <= 1000 or not 1 <= self.batch_bytes <= MAX_ITEM_BYTES:
            raise ValueError(f"a batch has 1 to 1,000 items and at most {MAX_ITEM_BYTES} bytes")
        if self.queue_items < 1 or self.queue_bytes < 1 or self.faulty_tries < 1 or self.request_seconds <= 0:
            raise ValueError("queue_items, queue_bytes, faulty_tries and request_seconds are positive")
        pauses = (self.linger_seconds, self.first_pause_seconds, self.longest_pause_seconds, self.exit_seconds)
        if min(pauses) < 0:
            raise ValueError("no time is negative")


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of this process so far: recorded = acknowledged + refused + lost + pending.

    recorded: taken into the queue. acknowledged: the API said it keeps them (or has kept them before). refused: it said
    it does not. lost: still waiting when the client was closed. pending: waiting or under way. dropped: never taken, as
    the queue was full or closed. retries: requests sent again. faults: items that could not even be made.
    """

    recorded: int = 0
    acknowledged: int = 0
    refused: int = 0
    lost: int = 0
    pending: int = 0
    dropped: int = 0
    retries: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: str
    id: str
    data: bytes


class _ItemError(msgspec.Struct):
    index: int
    code: str
    fields: list[dict[str, str]] = []


class _Outcome(msgspec.Struct):
    """A batch's answer. `kept` must be there: whatever else may answer 201 acknowledges nothing."""

    kept: list[msgspec.Raw]
    errors: list[_ItemError] = []


class Sender:
    """Sends what is offered to `transport`, in the background and in order. Safe for threads, signals and forks."""

    def __init__(self, transport: Transport, sending: Sending, on_refused: Callable[[Refusal], None] | None) -> None:
        self._transport = transport
        self._sending = sending
        self._on_refused = on_refused
        self._last_warning: dict[str, float] = {}
        self._clear()
        _senders.add(self)

    def _clear(self) -> None:
        """As in a new process: nothing queued, nothing counted, no thread, no lock held."""
        self._pid = os.getpid()
        # Reentrant: a signal handler or a finalizer of the host may record while its thread is inside `offer`.
        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._settled_some = threading.Condition(self._lock)
        self._queue: deque[_Entry] = deque()
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._sleeping = False
        self._closed = False
        self._over = False  # closing has waited long enough: an answer that still comes is not counted
        self._hurry_until = 0.0  # somebody waits in flush or close until this moment of the monotonic clock
        self._give_up_at: float | None = None
        self._recorded = self._settled = self._acknowledged = self._refused = 0
        self._lost = self._dropped = self._retries = self._faults = 0

    # The host's side

    def offer(self, kind: str, item_id: str, data: bytes) -> bool:
        """Takes one item of JSON; False when it was dropped. Never waits for the network, never raises."""
        with self._lock:
            waiting = self._recorded - self._settled
            full = waiting >= self._sending.queue_items or self._bytes + len(data) > self._sending.queue_bytes
            taken = not (full or self._closed or len(data) > MAX_ITEM_BYTES)
            if taken:
                self._queue.append(_Entry(kind, item_id, data))
                self._recorded += 1
                self._bytes += len(data)
                if self._thread is None:
                    self._start()
                elif self._sleeping or len(self._queue) == self._sending.batch_items:
                    self._work_came.notify()
            else:
                self._dropped += 1
                why = "the client is closed" if self._closed else "the queue is full" if full else "it is over 9 MB"
        # Outside the lock: a handler of the host's log may have a lock of its own, and record.
        if not taken:
            self._warn("dropped", "dropped an item of %s: %s (%d so far)", kind, why, self._dropped)
        return taken

    def count_fault(self, error: BaseException) -> None:
        """The host's item could not be made into one of ours, which is our bug: logged, not raised."""
        with self._lock:
            self._faults += 1
        self._warn("fault", "could not record: %s: %s", type(error).__name__, error, exc_info=error)

    def stats(self) -> Stats:
        with self._lock:
            return Stats(
                recorded=self._recorded,
                acknowledged=self._acknowledged,
                refused=self._refused,
                lost=self._lost,
                pending=self._recorded - self._acknowledged - self._refused - self._lost,
                dropped=self._dropped,
                retries=self._retries,
                faults=self._faults,
            )

    def flush(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds until everything offered before is settled; whether it is."""
        with self._lock:
            return self._wait_until(self._recorded, time.monotonic() + timeout)

    def close(self, timeout: float) -> bool:
        """Takes nothing more, waits at most `timeout` seconds for what waits, forgets the rest; whether all went.

        With 0 nothing is waited for. Calling it again does nothing.
        """
        until = time.monotonic() + timeout
        with self._lock:
            if self._closed:
                return not self._lost
            self._closed = True
            self._give_up_at = until
            if self._thread is None and self._queue:
                self._start()
            alone = self._thread is None and bool(self._queue)
        if alone:  # the interpreter is ending and starts no more threads
            self._work()
        with self._lock:
            self._wait_until(self._recorded, until)
            left = self._recorded - self._acknowledged - self._refused - self._lost
            self._queue.clear()
            self._over = True
            self._lost += left
            self._work_came.notify_all()
        if left:
            logger.warning("%d recorded items were not sent in the %g s that closing may take", left, timeout)
        return not left

    def after_fork(self) -> None:
        """In the child: the queue, the thread and the connections are the parent's, who sends what was queued."""
        closed = self._closed
        self._clear()
        self._closed = closed
        self._transport.forget()

    # The thread's side

    def _start(self) -> None:
        _register_exit()
        thread = threading.Thread(target=self._work, name="reckoner-client", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread to be had, or the interpreter is ending: the next item or `close` tries again.
            return
        self._thread = thread

    def _work(self) -> None:
        pid = self._pid
        while batch := self._take():
            try:
                self._deliver(batch)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next batch must still go
                self.count_fault(error)
            if self._pid != pid:
                return  # `on_refused` forked, and this is the child: it has a queue of its own
            self._settle(batch)

    def _take(self) -> list[_Entry]:
        """The next batch; empty when the thread is to end."""
        sending = self._sending
        with self._lock:
            while not self._queue:
                self._sleeping = not self._closed
                woken = not self._closed and self._work_came.wait(_IDLE_SECONDS)
                self._sleeping = False
                if not self._queue and (self._closed or not woken):
                    self._thread = None
                    return []
            until = time.monotonic() + sending.linger_seconds
            while len(self._queue) < sending.batch_items and not self._closed and not self._hurried():
                if (left := until - time.monotonic()) <= 0:
                    break
                self._work_came.wait(left)
            if self._given_up() or not self._queue:
                self._thread = None
                return []
            batch, size = [self._queue.popleft()], 0
            size = len(batch[0].data)
            while self._queue and len(batch) < sending.batch_items:
                size += len(self._queue[0].data)
                if size > sending.batch_bytes:
                    break
                batch.append(self._queue.popleft())
        return batch

    def _deliver(self, batch: list[_Entry]) -> None:
        """Sends a batch, kind by kind, and the parts it falls into, until all are answered or time is up."""
        tries = self._sending.faulty_tries
        kinds = sorted({entry.kind for entry in batch}, key=KINDS.index)
        parts = deque(([entry for entry in batch if entry.kind == kind], tries) for kind in kinds)
        while parts:
            part, tries = parts.popleft()
            reply = self._send_until_answered(part, tries=tries)
            if reply is None:
                return
            if len(part) > 1 and (reply.status in _SPLIT or reply.status >= 500):
                # One item that cannot be read, or breaks the server, takes the whole body with it: it is looked for.
                middle = len(part) // 2
                parts.extendleft([(part[middle:], 1), (part[:middle], 1)])
            else:
                self._take_answer(part, reply)

    def _send_until_answered(self, part: Sequence[_Entry], *, tries: int) -> Reply | None:
        """An answer that says something about the items; None when there is no more time."""
        body = b"[" + b",".join(entry.data for entry in part) + b"]"
        faulty = 0
        for attempt in itertools.count():
            wait: float | None = None
            try:
                reply = self._transport.call("POST", f"/{part[0].kind}", body, timeout=self._request_seconds())
                wait = reply.retry_after
                if not reply.later:
                    faulty += 1
                    success = 200 <= reply.status < 300
                    if faulty >= tries or not (success or reply.status >= 500) or _outcome(reply, len(part)):
                        return reply
                why = f"status {reply.status}"
            except Unavailable as error:
                why = str(error)
            self._warn("away", "%d items of %s will be sent again: %s", len(part), part[0].kind, why)
            if not self._pause(attempt, wait):
                return None
            with self._lock:
                self._retries += 1
        raise AssertionError("counting does not end")

    def _take_answer(self, part: Sequence[_Entry], reply: Reply) -> None:
        """Counts one answered request, and reports what was refused."""
        outcome = _outcome(reply, len(part))
        if outcome is None:
            error = refused(reply)
            for entry in part:
                self._refuse(entry, reply.status, error.code, error.message, error.fields)
            kept = 0
        else:
            for item in outcome.errors:
                fields = tuple(
                    FieldFault(f.get("field", ""), f.get("reason", ""), f.get("expected", "")) for f in item.fields
                )
                message = "; ".join(f"{fault.field} {fault.reason}".strip() for fault in fields)
                self._refuse(part[item.index], reply.status, item.code, message, fields)
            kept = len(part) - len(outcome.errors)
        with self._lock:
            if not self._over:
                self._acknowledged += kept
                self._refused += len(part) - kept

    def _refuse(self, entry: _Entry, status: int, code: str, message: str, fields: tuple[FieldFault, ...]) -> None:
        self._warn("refused", "%s refused %s: %s %s", entry.kind, entry.id, code, message)
        if self._on_refused is None:
            return
        item = msgspec.json.decode(entry.data)
        try:
            self._on_refused(Refusal(entry.kind, entry.id, item, status, code, message, fields))
        except Exception:  # the host's own function, in our thread: said, and the rest goes on
            logger.exception("on_refused failed")

    def _settle(self, batch: Sequence[_Entry]) -> None:
        """Only whole batches settle, so that one number says for `flush` that everything before it is settled."""
        with self._lock:
            self._bytes -= sum(len(entry.data) for entry in batch)
            if not self._given_up():
                self._settled += len(batch)
                self._lost = self._settled - self._acknowledged - self._refused  # by a fault of ours
            self._settled_some.notify_all()

    def _pause(self, attempt: int, asked: float | None) -> bool:
        """Waits before the next try; False when there will be none. A hurry shortens it, but not what was asked."""
        sending = self._sending
        with self._lock:
            most = min(sending.longest_pause_seconds, sending.first_pause_seconds * 2.0 ** min(attempt, 30))
            until = time.monotonic() + max(_jitter.uniform(0, most), asked or 0.0)
            shortest = time.monotonic() + max(min(most, 0.25), asked or 0.0)
            while True:
                if self._given_up():
                    return False
                now = time.monotonic()
                end = min(until, shortest) if self._closed or self._hurried() else until
                if now >= end:
                    return True
                left = end - now
                if self._give_up_at is not None:
                    left = min(left, max(0.0, self._give_up_at - now))
                self._work_came.wait(left)

    def _request_seconds(self) -> float:
        with self._lock:
            if self._give_up_at is None:
                return self._sending.request_seconds
            return max(0.05, min(self._sending.request_seconds, self._give_up_at - time.monotonic()))

    def _given_up(self) -> bool:
        return self._give_up_at is not None and time.monotonic() >= self._give_up_at

    def _hurried(self) -> bool:
        return time.monotonic() < self._hurry_until

    def _wait_until(self, count: int, until: float) -> bool:
        """Holds the lock, which waiting lets go."""
        self._hurry_until = max(self._hurry_until, until)
        self._work_came.notify_all()
        while self._settled < count:
            if self._thread is None and self._queue:
                self._start()
            if self._thread is None or (left := until - time.monotonic()) <= 0:
                return False
            self._settled_some.wait(left)
        return True

    def _warn(self, about: str, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        """At most once a minute about each thing: a server that is away must not fill the host's log."""
        now = time.monotonic()
        if now - self._last_warning.get(about, -_WARN_SECONDS) >= _WARN_SECONDS:
            self._last_warning[about] = now
            logger.warning(message, *values, exc_info=exc_info)


def _outcome(reply: Reply, count: int) -> _Outcome | None:
    """What became of `count` items; None when the answer does not account for each of them."""
    if reply.status not in {201, 207}:
        return None
    try:
        outcome = _answers.decode(reply.body)
    except msgspec.DecodeError:
        return None
    complete = len(outcome.kept) + len(outcome.errors) == count
    return outcome if complete and all(0 <= error.index < count for error in outcome.errors) else None


_answers = msgspec.json.Decoder(_Outcome)
_senders: weakref.WeakSet[Sender] = weakref.WeakSet()
_exit_registered_in: int | None = None


def _register_exit() -> None:
    """Once a process, when it first records: children forked by multiprocessing forget what was registered before."""
    global _exit_registered_in
    if _exit_registered_in == os.getpid():
        return
    _exit_registered_in = os.getpid()
    atexit.register(_close_all)
    # Before Python 3.13 such a child ends by os._exit and runs only finalizers of its own; so does billiard, Celery's.
    for name in ("multiprocessing", "billiard"):
        process, util = sys.modules.get(f"{name}.process"), sys.modules.get(f"{name}.util")
        if process is not None and util is not None and getattr(process.current_process(), "_parent_pid", None):
            util.Finalize(None, _close_all, exitpriority=10)


def _close_all() -> None:
    for sender in list(_senders):
        sender.close(sender._sending.exit_seconds)


def _forget_all() -> None:
    for sender in list(_senders):
        sender.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
