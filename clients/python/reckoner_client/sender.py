"""The bounded queue and its thread: batches, retries, refusals, exits and forks.

The program's side is `offer`: it appends under a lock and returns. One daemon thread, started by the first item and
ended by half a minute without one, sends a batch of a kind when it is due. What is not answered stays in its place and
is due again later. Items carry ids, so a repeat is harmless. Each kind waits by itself: while the key is refused for
one kind, the others go on.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from reckoner_client import exits
from reckoner_client.errors import Refused, Unavailable
from reckoner_client.replies import LATER, is_about_items, read_outcome, refused
from reckoner_client.transport import Transport
from reckoner_client.wire import encode

logger = logging.getLogger("reckoner_client")
MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_ITEM_BYTES = 9 * 1024 * 1024  # the API takes requests of 10 MB
FIRST_PAUSE_SECONDS = 0.5
REQUEST_SECONDS = 10.0
FAULTY_TRIES = 3  # how often a batch is sent to a server that answers 500 before its halves are tried
_IDLE_SECONDS = 30.0
_WARN_SECONDS = 60.0
_jitter = random.SystemRandom()  # has no state that a forked child would share


@dataclass(frozen=True, slots=True)
class Sending:
    """How recorded items travel. The defaults suit a web process.

    batch_items: a request's most; the API takes 1,000.
    linger_seconds: how long the first item of a batch waits for others.
    queue_items, queue_bytes: what may wait in memory of each kind, and of all. What comes on top is dropped.
    longest_pause_seconds: before try n+1 passes a random time up to 0.5 · 2ⁿ, at most this long; at least what
    `Retry-After` says.
    exit_seconds: what the process's end may wait for the queue; 0 forgets it.
    """

    batch_items: int = 500
    linger_seconds: float = 0.5
    queue_items: int = 10_000
    queue_bytes: int = 64 * 1024 * 1024
    longest_pause_seconds: float = 30.0
    exit_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of this process so far: recorded = acknowledged + refused + dropped + pending. See docs/clients.md."""

    recorded: int = 0
    acknowledged: int = 0
    refused: int = 0
    dropped: int = 0
    pending: int = 0
    retries: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """`number`: which of those that this process recorded, from 1; `at`: when, of the monotonic clock; `corrects`: it
    names the right action, which the API can check only once it has the decision."""

    data: bytes
    number: int
    at: float
    corrects: bool


@dataclass(slots=True)
class _Lane:
    """What waits of one kind, with what is under way. Moments are of the monotonic clock.

    tries: how often the first of them failed; faulty: with 500; why: at last. until: when they go again; soonest:
    when they are for somebody who waits. suspects: how many entries, from the first, are known to hold one that the API
    cannot read.
    """

    kind: str
    entries: deque[_Entry] = field(default_factory=deque)
    until: float = 0.0
    soonest: float = 0.0
    tries: int = 0
    faulty: int = 0
    why: str = ""
    suspects: int = 0


class Sender:
    """Sends what is offered to `transport`, in the background and in order; without one it takes nothing.

    Safe for threads, signals and forks.
    """

    def __init__(
        self, transport: Transport | None, sending: Sending, on_refused: Callable[[Refused], None] | None
    ) -> None:
        self._transport = transport
        self._sending = sending
        self._on_refused = on_refused
        self._last_warning: dict[str, float] = {}
        self._clear()
        exits.senders.add(self)

    def _clear(self) -> None:
        """As in a new process: nothing queued, nothing counted, no thread, no lock held."""
        # Reentrant: a signal handler or a finalizer of the host may record while its thread is inside `offer`.
        self._changed = threading.Condition(threading.RLock())
        self._lanes: dict[str, _Lane] = {}
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._hurry_until = 0.0  # somebody waits in flush or close until this moment of the monotonic clock
        self._give_up_at = float("inf")
        self._counts: Counter[str] = Counter()

    # The host's side

    def offer(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Takes one item of the endpoint `kind`, without what is None, or drops it and says so.

        Never waits for the network, never raises.
        """
        if self._transport is None:
            return
        try:
            data = encode({name: value for name, value in fields.items() if value is not None})
            self._queue(kind, data, corrects=fields.get("correction") is not None)
        except Exception as error:  # noqa: BLE001 - bookkeeping must not fail the host
            self.fault(error)

    def _queue(self, kind: str, data: bytes, *, corrects: bool) -> None:
        with self._changed:
            lane = self._lanes.get(kind) or self._lanes.setdefault(kind, _Lane(kind))
            why = self._why_not(lane, len(data))
            self._counts["recorded"] += 1
            if why:
                self._counts["dropped"] += 1
            else:
                lane.entries.append(_Entry(data, self._counts["recorded"], time.monotonic(), corrects))
                self._bytes += len(data)
                if len(lane.entries) in {1, self._sending.batch_items}:
                    self._changed.notify_all()
                if self._thread is None:
                    self._start()
        if why:  # Outside the lock: a handler of the host's log may have a lock of its own, and record.
            self._warn("dropped", "dropped an item of %s: %s (%d so far)", kind, why, self._counts["dropped"])

    def _why_not(self, lane: _Lane, size: int) -> str:
        if self._closed:
            return "the client is closed"
        if size > MAX_ITEM_BYTES:
            return "it is over 9 MB"
        full = len(lane.entries) >= self._sending.queue_items or self._bytes + size > self._sending.queue_bytes
        return "the queue is full" if full else ""

    def fault(self, error: BaseException) -> None:
        """Something went wrong in the bookkeeping: counted and logged, not raised."""
        with self._changed:
            self._counts["faults"] += 1
        self._warn("fault", "could not record: %s: %s", type(error).__name__, error, exc_info=error)

    def _pending(self) -> int:
        return sum(len(lane.entries) for lane in self._lanes.values())

    def stats(self) -> Stats:
        with self._changed:
            return Stats(pending=self._pending(), **self._counts)

    def flush(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds until everything offered before is settled; whether it is."""
        with self._changed:
            return self._wait_until(self._counts["recorded"], time.monotonic() + timeout)

    def close(self, timeout: float) -> bool:
        """Takes nothing more, waits at most `timeout` seconds for what waits, drops the rest; whether all went."""
        until = time.monotonic() + timeout
        with self._changed:
            self._closed, self._give_up_at = True, until
            if self._thread is None and self._pending():
                self._start()
            alone = self._thread is None
        if alone:  # the interpreter is ending and starts no more threads
            self._work()
        with self._changed:
            self._wait_until(self._counts["recorded"], until)
            lost = self._pending()
            self._counts["dropped"] += lost
            why = next((lane.why for lane in self._lanes.values() if lane.why), "no answer in time")
            self._lanes.clear()  # an answer that still comes is not counted
            self._changed.notify_all()
        if lost:
            self._warn("lost", "%d recorded items were not sent and are dropped: %s", lost, why)
        return not lost

    def close_at_exit(self) -> None:
        self.close(self._sending.exit_seconds)

    def after_fork(self) -> None:
        """In the child: the queue, the thread and the connections are the parent's, who sends what was queued."""
        closed = self._closed
        self._clear()
        self._closed = closed
        if self._transport is not None:
            self._transport.forget()

    def _wait_until(self, count: int, until: float) -> bool:
        """The caller holds the lock; waiting releases it."""
        if threading.current_thread() is self._thread:
            return False  # `on_refused` asks: it would wait for itself
        self._hurry_until = max(self._hurry_until, until)
        self._changed.notify_all()
        while any(lane.entries and lane.entries[0].number <= count for lane in self._lanes.values()):
            if self._thread is None:
                self._start()
            if self._thread is None or (left := until - time.monotonic()) <= 0:
                return False
            self._changed.wait(left)
        return True

    def _start(self) -> None:
        exits.register_exit()
        # Known before it runs: a signal handler that records meanwhile must not start another.
        self._thread = threading.Thread(target=self._work, name="reckoner-client", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # none to be had, or the interpreter is ending: the next item or `close` tries again
            self._thread = None

    # The thread's side

    def _work(self) -> None:
        transport = self._transport
        while transport is not None and (taken := self._take()) is not None:
            lane, batch = taken
            refusals = None
            try:
                refusals = self._send(transport, lane, batch)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the thread is ours and the next batch must go
                self.fault(error)
                self._postpone(lane, "a fault of the client", 0)
            for refusal, entry in refusals or ():
                refusal.kind, refusal.item = lane.kind, msgspec.json.decode(entry.data)
                self._report(refusal)
            if refusals is not None:
                self._settle(lane, batch, len(refusals))

    def _take(self) -> tuple[_Lane, list[_Entry]] | None:
        """The next batch, once one is due, of the kind that waits the longest; None when the thread is to end."""
        with self._changed:
            while True:
                now = time.monotonic()
                waiting = [lane for lane in self._lanes.values() if lane.entries]
                lanes = [lane for lane in waiting if not self._waits_for_decision(lane.entries[0])]
                if now >= self._give_up_at or (self._closed and not lanes):
                    break
                if due := [lane for lane in lanes if self._due_at(lane) <= now]:
                    lane = min(due, key=lambda lane: lane.entries[0].number)
                    self._counts["retries"] += lane.tries > 0
                    return lane, self._first_of(lane)
                again = min(map(self._due_at, lanes), default=now + _IDLE_SECONDS)
                if not self._changed.wait(min(again, self._give_up_at) - now) and not self._pending():
                    break
            self._thread = None
            return None

    def _waits_for_decision(self, entry: _Entry) -> bool:
        """Whether it corrects a decision and one that was recorded before it is still on the way, perhaps that one."""
        decisions = self._lanes.get("decisions")
        return entry.corrects and bool(decisions and decisions.entries and decisions.entries[0].number < entry.number)

    def _due_at(self, lane: _Lane) -> float:
        hurry = self._closed or time.monotonic() < self._hurry_until
        if lane.tries:
            return lane.soonest if hurry else lane.until
        if hurry or lane.suspects or len(lane.entries) >= self._sending.batch_items:
            return 0.0
        return lane.entries[0].at + self._sending.linger_seconds

    def _first_of(self, lane: _Lane) -> list[_Entry]:
        """As many as a request takes, or half of those among which one is looked for."""
        most = max(1, lane.suspects // 2) if lane.suspects else self._sending.batch_items
        batch: list[_Entry] = []
        size = 0
        for entry in lane.entries:
            size += len(entry.data)
            if batch and (len(batch) == most or size > MAX_BATCH_BYTES or self._waits_for_decision(entry)):
                break
            batch.append(entry)
        return batch

    def _send(self, transport: Transport, lane: _Lane, batch: list[_Entry]) -> list[tuple[Refused, _Entry]] | None:
        """What the API does not keep of a batch that it answered; None where the batch is to be sent again."""
        body = b"[" + b",".join(entry.data for entry in batch) + b"]"
        seconds = max(0.05, min(REQUEST_SECONDS, self._give_up_at - time.monotonic()))
        try:
            reply = transport.call(f"/{lane.kind}", body, timeout=seconds)
        except Unavailable as error:
            self._postpone(lane, str(error), 0)
            return None
        if (outcome := read_outcome(reply, len(batch))) is not None:
            errors = outcome.errors
            return [(Refused(reply.status, one.code, one.message, one.fields), batch[one.index]) for one in errors]
        faulty = reply.status >= 500 and reply.status not in LATER
        lane.faulty += faulty
        if reply.status in LATER or (faulty and lane.faulty < FAULTY_TRIES):
            self._postpone(lane, f"status {reply.status}", reply.status, reply.retry_after)
        elif not faulty and not is_about_items(reply):
            why = f"the key or the address is refused ({refused(reply)})"
            self._postpone(lane, why, reply.status, reply.retry_after)
        else:
            lane.tries = lane.faulty = 0
            if len(batch) == 1:
                return [(refused(reply), batch[0])]
            # One unreadable item makes the whole body fail, so the batch is split until it is found.
            lane.suspects = len(batch)
        return None

    def _postpone(self, lane: _Lane, why: str, status: int, asked: float = 0.0) -> None:
        """Full jitter, and at least what the server asked for, which a hurry does not shorten."""
        with self._changed:
            now = time.monotonic()
            longest = min(self._sending.longest_pause_seconds, FIRST_PAUSE_SECONDS * 2.0 ** min(lane.tries, 30))
            lane.until = now + max(_jitter.uniform(0, longest), asked)
            lane.soonest = min(lane.until, now + max(0.25, asked))
            lane.tries += 1
            lane.why = why
        self._warn(f"{lane.kind} {status}", "items of %s wait in memory and are sent again: %s", lane.kind, why)

    def _report(self, refusal: Refused) -> None:
        self._warn("refused", "%s refused %s: %s", refusal.kind, refusal.item.get("id", "an item"), refusal)
        try:
            if self._on_refused is not None:
                self._on_refused(refusal)
        except BaseException as error:  # noqa: BLE001 - the host's own function, in our thread: even its sys.exit()
            self._warn("on_refused", "on_refused failed", exc_info=error)

    def _settle(self, lane: _Lane, batch: list[_Entry], refused: int) -> None:
        """A batch is answered."""
        with self._changed:
            if self._lanes.get(lane.kind) is not lane:
                return  # it was given up meanwhile
            for entry in batch:
                lane.entries.popleft()
                self._bytes -= len(entry.data)
            self._counts["refused"] += refused
            self._counts["acknowledged"] += len(batch) - refused
            lane.tries = lane.faulty = 0
            lane.why = ""
            lane.suspects = max(0, lane.suspects - len(batch))
            self._changed.notify_all()

    def _warn(self, about: str, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        """At most once a minute about each thing: a server that is away must not fill the host's log."""
        now = time.monotonic()
        if now - self._last_warning.get(about, -_WARN_SECONDS) >= _WARN_SECONDS:
            self._last_warning[about] = now
            with contextlib.suppress(Exception):  # a filter or a handler of the host's log may raise
                logger.warning(message, *values, exc_info=exc_info)
