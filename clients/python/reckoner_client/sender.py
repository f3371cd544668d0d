"""The bounded queue and the thread behind it: batches, retries, refusals, exits and forks.

The host's side is `offer`: it appends under a lock and returns. One daemon thread, started by the first item and ended
by half a minute without one, sends a batch of a kind when it is due. What is not answered stays in its place and is
due again later. Items carry ids, so an answer that was lost costs a repeat and nothing else. Each kind waits by itself:
while the key is refused for one, what it may send goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from reckoner_client import exits
from reckoner_client.errors import Refusal, Refused, Unavailable
from reckoner_client.replies import LATER, read_outcome, refused, says_nothing
from reckoner_client.sending import MAX_ITEM_BYTES, Sending, Stats
from reckoner_client.transport import Transport

logger = logging.getLogger("reckoner_client")
_IDLE_SECONDS = 30.0
_WARN_SECONDS = 60.0
_jitter = random.SystemRandom()  # has no state that a forked child would share


@dataclass(frozen=True, slots=True)
class _Entry:
    """`number`: which of those that this process recorded, from 1."""

    id: str
    data: bytes
    number: int


@dataclass(slots=True)
class _Lane:
    """What waits of one kind, with what is under way. Moments are of the monotonic clock.

    until: when the next batch is due; soonest: when it is for somebody who waits. tries: how often it failed; faulty:
    with 500. status: of the answer that refused the key or the address, else 0. suspects: how many entries, from the
    first, are known to hold one that the API cannot read.
    """

    kind: str
    entries: deque[_Entry] = field(default_factory=deque)
    until: float = 0.0
    soonest: float = 0.0
    tries: int = 0
    faulty: int = 0
    status: int = 0
    suspects: int = 0


class Sender:
    """Sends what is offered to `transport`, in the background and in order. Safe for threads, signals and forks."""

    def __init__(self, transport: Transport, sending: Sending, on_refused: Callable[[Refusal], None] | None) -> None:
        self._transport = transport
        self._sending = sending
        self._on_refused = on_refused
        self._last_warning: dict[str, float] = {}
        self._clear()
        exits.senders.add(self)

    def _clear(self) -> None:
        """As in a new process: nothing queued, nothing counted, no thread, no lock held."""
        self._pid = os.getpid()
        # Reentrant: a signal handler or a finalizer of the host may record while its thread is inside `offer`.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._starting = self._closed = False
        self._hurry_until = 0.0  # somebody waits in flush or close until this moment of the monotonic clock
        self._give_up_at = float("inf")
        self._counts: Counter[str] = Counter()

    # The host's side

    def offer(self, kind: str, item_id: str, data: bytes) -> None:
        """Takes one item of JSON, or drops it and says so. Never waits for the network, never raises."""
        with self._lock:
            lane = self._lanes.get(kind) or self._lanes.setdefault(kind, _Lane(kind))
            why = self._why_not(lane, len(data))
            self._counts["dropped" if why else "recorded"] += 1
            if not why:
                lane.entries.append(_Entry(item_id, data, self._counts["recorded"]))
                self._bytes += len(data)
                if len(lane.entries) in {1, self._sending.batch_items}:
                    self._linger(lane)
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
        most = self._sending.queue_items
        # What one scope lacks must not fill the whole queue.
        full = self._pending() >= most or (lane.status == 403 and 2 * len(lane.entries) >= most)
        return "the queue is full" if full or self._bytes + size > self._sending.queue_bytes else ""

    def count_fault(self, error: BaseException) -> None:
        """The host's item could not be made into one of ours, which is our bug: logged, not raised."""
        with self._lock:
            self._counts["faults"] += 1
        self._warn("fault", "could not record: %s: %s", type(error).__name__, error, exc_info=error)

    def _pending(self) -> int:
        return self._counts["recorded"] - sum(self._counts[end] for end in ("acknowledged", "refused", "lost"))

    def stats(self) -> Stats:
        with self._lock:
            held = sum(len(lane.entries) for lane in self._lanes.values() if lane.status)
            now = {"pending": self._pending(), "held": held, "dropped": self._counts["dropped"] + self._counts["lost"]}
            return Stats(**{**self._counts, **now})

    def flush(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds until everything offered before is settled; whether it is."""
        with self._lock:
            return self._wait_until(self._counts["recorded"], time.monotonic() + timeout)

    def close(self, timeout: float) -> bool:
        """Takes nothing more, waits at most `timeout` seconds for what waits, forgets the rest; whether all went.

        A refused key is tried once more, at once. Calling it again does nothing.
        """
        until = time.monotonic() + timeout
        with self._lock:
            if self._closed:
                return not self._counts["lost"]
            self._closed, self._give_up_at = True, until
            for lane in self._lanes.values():
                lane.soonest = 0.0 if lane.status else lane.soonest
            if self._thread is None and self._pending():
                self._start()
            alone = self._thread is None
        if alone:  # the interpreter is ending and starts no more threads
            self._work()
        with self._lock:
            self._wait_until(self._counts["recorded"], until)
            refusal = max((lane.status for lane in self._lanes.values()), default=0)
            lost = self._pending()
            self._counts["lost"] += lost
            self._lanes.clear()  # an answer that still comes is not counted
            self._changed.notify_all()
        if lost:
            away = f"no answer in the {timeout:g} s that closing may take"
            why = f"the key or the address is refused (status {refusal})" if refusal else away
            self._log(logging.WARNING, "%d recorded items were not sent and are dropped: %s", lost, why)
        return not lost

    def close_at_exit(self) -> None:
        self.close(self._sending.exit_seconds)

    def after_fork(self) -> None:
        """In the child: the queue, the thread and the connections are the parent's, who sends what was queued."""
        closed = self._closed
        self._clear()
        self._closed = closed
        self._transport.forget()

    def _wait_until(self, count: int, until: float) -> bool:
        """Holds the lock, which waiting lets go."""
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
        if self._starting:
            return  # a signal handler whose thread is in here: there must not be two
        self._starting = True
        # No thread to be had, or the interpreter is ending: the next item or `close` tries again.
        with contextlib.suppress(RuntimeError):
            exits.register_exit()
            thread = threading.Thread(target=self._work, name="reckoner-client", daemon=True)
            thread.start()
            self._thread = thread
        self._starting = False

    # The thread's side

    def _work(self) -> None:
        pid = self._pid
        while (taken := self._take()) is not None:
            lane, batch = taken
            refusals = None
            try:
                refusals = self._send(lane, batch)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the thread is ours and the next batch must go
                self.count_fault(error)
                self._postpone(lane, "a fault of the client")
            for refusal in refusals or ():
                self._report(refusal)
            if self._pid != pid:
                return  # `on_refused` forked, and this is the child: it has a queue of its own
            if refusals is not None:
                self._settle(lane, batch, len(refusals))

    def _take(self) -> tuple[_Lane, list[_Entry]] | None:
        """The next batch, once one is due, of the kind that waits the longest; None when the thread is to end."""
        with self._lock:
            while True:
                now = time.monotonic()
                lanes = [lane for lane in self._lanes.values() if lane.entries]
                if now >= self._give_up_at or (self._closed and not lanes):
                    break
                if due := [lane for lane in lanes if self._due_at(lane) <= now]:
                    lane = min(due, key=lambda lane: lane.entries[0].number)
                    self._counts["retries"] += lane.tries > 0 and not lane.status
                    return lane, self._first_of(lane)
                again = min(map(self._due_at, lanes), default=now + _IDLE_SECONDS)
                if not self._changed.wait(min(again, self._give_up_at) - now) and not lanes and not self._pending():
                    break
            self._thread = None
            return None

    def _due_at(self, lane: _Lane) -> float:
        return lane.soonest if self._closed or time.monotonic() < self._hurry_until else lane.until

    def _first_of(self, lane: _Lane) -> list[_Entry]:
        """As many as a request takes, or half of those among which one is looked for."""
        most = max(1, lane.suspects // 2) if lane.suspects else self._sending.batch_items
        batch: list[_Entry] = []
        size = 0
        for entry in lane.entries:
            size += len(entry.data)
            if batch and (len(batch) == most or size > self._sending.batch_bytes):
                break
            batch.append(entry)
        return batch

    def _send(self, lane: _Lane, batch: list[_Entry]) -> list[Refusal] | None:
        """What the API does not keep of a batch that it answered; None where the batch is to be sent again."""
        body = b"[" + b",".join(entry.data for entry in batch) + b"]"
        seconds = max(0.05, min(self._sending.request_seconds, self._give_up_at - time.monotonic()))
        try:
            reply = self._transport.call("POST", f"/{lane.kind}", body, timeout=seconds)
        except Unavailable as error:
            self._postpone(lane, str(error))
            return None
        if (outcome := read_outcome(reply, len(batch))) is not None:
            return [
                _refusal(lane, batch[item.index], Refused(reply.status, item.code, "", item.fields))
                for item in outcome.errors
            ]
        lane.faulty += reply.status >= 500 and reply.status not in LATER
        if says_nothing(reply):
            refused_key = f"the key or the address is refused ({refused(reply)})"
            self._postpone(lane, refused_key, reply.retry_after, status=reply.status)
        elif reply.status in LATER or 0 < lane.faulty < self._sending.faulty_tries:
            self._postpone(lane, f"status {reply.status}", reply.retry_after)
        else:
            lane.tries = lane.faulty = lane.status = 0
            if len(batch) == 1:
                return [_refusal(lane, batch[0], refused(reply))]
            # One item that cannot be read, or breaks the server, takes the whole body with it: it is looked for.
            lane.suspects = len(batch)
        return None

    def _postpone(self, lane: _Lane, why: str, asked: float = 0.0, status: int = 0) -> None:
        """Full jitter, and at least what the server asked for, which a hurry does not shorten.

        status: of the answer that refused the key or the address: then closing waits for no better one.
        """
        with self._lock:
            longest, first = self._sending.longest_pause_seconds, self._sending.first_pause_seconds
            now = time.monotonic()
            lane.until = now + max(_jitter.uniform(0, min(longest, first * 2.0 ** min(lane.tries, 30))), asked)
            lane.soonest = min(lane.until, now + max(0.25, asked))
            lane.tries += 1
            lane.status = status
            self._counts["key_refusals"] += status > 0
            if status and self._closed:
                lane.entries.clear()
                self._changed.notify_all()
        self._warn(f"{lane.kind} {status}", "items of %s wait in memory and are sent again: %s", lane.kind, why)

    def _report(self, refusal: Refusal) -> None:
        self._warn("refused", "%s refused %s: %s %s", refusal.kind, refusal.id, refusal.code, refusal.message)
        try:
            if self._on_refused is not None:
                self._on_refused(refusal)
        except BaseException as error:  # noqa: BLE001 - the host's own function, in our thread: even its sys.exit()
            self._log(logging.WARNING, "on_refused failed", exc_info=error)

    def _settle(self, lane: _Lane, batch: list[_Entry], refused: int) -> None:
        """A batch is answered."""
        with self._lock:
            if self._lanes.get(lane.kind) is not lane:
                return  # it was given up meanwhile
            for entry in batch:
                lane.entries.popleft()
                self._bytes -= len(entry.data)
            self._counts["refused"] += refused
            self._counts["acknowledged"] += len(batch) - refused
            was_held = lane.status
            lane.tries = lane.faulty = lane.status = 0
            lane.suspects = max(0, lane.suspects - len(batch))
            self._linger(lane)
            self._changed.notify_all()
        if was_held:
            self._log(logging.INFO, "items of %s are taken again", lane.kind)

    def _linger(self, lane: _Lane) -> None:
        """When the next batch is due where nothing failed: at once if it is full."""
        if not lane.tries:
            full = lane.suspects or len(lane.entries) >= self._sending.batch_items
            lane.until = 0.0 if full else time.monotonic() + self._sending.linger_seconds
            lane.soonest = 0.0

    def _warn(self, about: str, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        """At most once a minute about each thing: a server that is away must not fill the host's log."""
        now = time.monotonic()
        if now - self._last_warning.get(about, -_WARN_SECONDS) >= _WARN_SECONDS:
            self._last_warning[about] = now
            self._log(logging.WARNING, message, *values, exc_info=exc_info)

    def _log(self, level: int, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        # A filter or a handler of the host's log may raise, and recording must not.
        with contextlib.suppress(Exception):
            logger.log(level, message, *values, exc_info=exc_info)


def _refusal(lane: _Lane, entry: _Entry, error: Refused) -> Refusal:
    message = error.message or "; ".join(f"{fault.field} {fault.reason}".strip() for fault in error.fields)
    item = msgspec.json.decode(entry.data)
    return Refusal(lane.kind, entry.id, item, error.status, error.code, message, error.fields)
