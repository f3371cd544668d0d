"""The bounded queue and the thread behind it: batches, retries, refusals, exits and forks.

The host's side is `offer`: it appends under a lock and returns. One daemon thread, started by the first item and ended
by half a minute without one, takes batches, sends them, and tries again until they are answered. Items carry ids, so
an answer that was lost costs a repeat and nothing else. While the key is refused its items are held, kind by kind:
an operator may be rotating it, and what the key may send goes on meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from reckoner_client.answers import read_outcome, says_nothing
from reckoner_client.errors import FieldFault, Refusal, Unavailable
from reckoner_client.exits import add_sender, register_exit
from reckoner_client.sending import MAX_ITEM_BYTES, Sending, Stats
from reckoner_client.transport import Reply, Transport, refused

__all__ = ["Sender"]

logger = logging.getLogger("reckoner_client")

# A batch's kinds go out in this order: what is said about a decision comes after it.
KINDS = ("decisions", "steps", "episodes", "feedback")
_SPLIT = frozenset({400, 413, 422})
_IDLE_SECONDS = 30.0
_WARN_SECONDS = 60.0
_jitter = random.SystemRandom()  # has no state that a forked child would share


@dataclass(frozen=True, slots=True)
class _Entry:
    """`number`: which of those that this process recorded, from 1."""

    kind: str
    id: str
    data: bytes
    number: int


@dataclass(slots=True)
class _Held:
    """What waits of one kind while the key is refused for it. Moments are of the monotonic clock.

    until: when it is tried again; soonest: when somebody waits for it. final: it was refused once more while closing.
    """

    entries: deque[_Entry]
    status: int = 0
    tries: int = 0
    until: float = 0.0
    soonest: float = 0.0
    final: bool = False


class Sender:
    """Sends what is offered to `transport`, in the background and in order. Safe for threads, signals and forks."""

    def __init__(self, transport: Transport, sending: Sending, on_refused: Callable[[Refusal], None] | None) -> None:
        self._transport = transport
        self._sending = sending
        self._on_refused = on_refused
        self._last_warning: dict[str, float] = {}
        self._clear()
        add_sender(self)

    def _clear(self) -> None:
        """As in a new process: nothing queued, nothing counted, no thread, no lock held."""
        self._pid = os.getpid()
        # Reentrant: a signal handler or a finalizer of the host may record while its thread is inside `offer`.
        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._settled_some = threading.Condition(self._lock)
        self._starting = threading.Lock()  # never waited for
        self._queue: deque[_Entry] = deque()
        self._under_way: list[_Entry] = []
        self._held: dict[str, _Held] = {}
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._sleeping = False
        self._closed = False
        self._over = False  # closing has waited long enough: an answer that still comes is not counted
        self._hurry_until = 0.0  # somebody waits in flush or close until this moment of the monotonic clock
        self._give_up_at: float | None = None
        self._recorded = self._settled = self._acknowledged = self._refused = 0
        self._lost = self._dropped = self._retries = self._faults = self._key_refusals = 0

    # The host's side

    def offer(self, kind: str, item_id: str, data: bytes) -> bool:
        """Takes one item of JSON; False when it was dropped. Never waits for the network, never raises."""
        with self._lock:
            waiting = self._recorded - self._settled
            full = waiting >= self._room_for(kind) or self._bytes + len(data) > self._sending.queue_bytes
            taken = not (full or self._closed or len(data) > MAX_ITEM_BYTES)
            if taken:
                self._recorded += 1
                self._queue.append(_Entry(kind, item_id, data, self._recorded))
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
                dropped=self._dropped + self._lost,
                retries=self._retries,
                faults=self._faults,
                held=self._count_held(),
                key_refusals=self._key_refusals,
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
            lost_before = self._lost
            waiting = bool(self._queue or self._held)
            if self._thread is None and waiting:
                self._start()
            alone = self._thread is None and waiting
        if alone:  # the interpreter is ending and starts no more threads
            self._work()
        with self._lock:
            self._wait_until(self._recorded, until)
            left = self._recorded - self._acknowledged - self._refused - self._lost
            why = f"no answer in the {timeout:g} s that closing may take"
            for held in self._held.values():
                if held.status:
                    why = f"the key or the address is refused (status {held.status})"
                held.entries.clear()
            self._queue.clear()
            self._over = True
            self._lost += left
            lost = self._lost - lost_before
            self._work_came.notify_all()
        if lost:
            self._log("%d recorded items were not sent and are dropped: %s", lost, why)
        return not lost

    def close_at_exit(self) -> None:
        self.close(self._sending.exit_seconds)

    def after_fork(self) -> None:
        """In the child: the queue, the thread and the connections are the parent's, who sends what was queued."""
        closed = self._closed
        self._clear()
        self._closed = closed
        self._transport.forget()

    # The thread's side

    def _start(self) -> None:
        """Does nothing in a signal handler whose thread is in here: there must not be two."""
        if not self._starting.acquire(blocking=False):
            return
        try:
            register_exit()
            thread = threading.Thread(target=self._work, name="reckoner-client", daemon=True)
            thread.start()
            self._thread = thread
        except RuntimeError:
            # No thread to be had, or the interpreter is ending: the next item or `close` tries again.
            return
        finally:
            self._starting.release()

    def _work(self) -> None:
        pid = self._pid
        while batch := self._take():
            kept: list[_Entry] = []
            try:
                self._deliver(batch, kept)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the thread is ours and the next batch must go
                self.count_fault(error)
            if self._pid != pid:
                return  # `on_refused` forked, and this is the child: it has a queue of its own
            self._settle(batch, kept)

    def _take(self) -> list[_Entry]:
        """The next batch; empty when the thread is to end."""
        sending = self._sending
        with self._lock:
            while (source := self._due()) is None and not self._queue:
                if self._closed:
                    self._thread = None
                    return []
                again = min((self._again_at(held) for held in self._held.values() if held.entries), default=None)
                self._sleeping = True
                woken = self._work_came.wait(_IDLE_SECONDS if again is None else max(0.0, again - time.monotonic()))
                self._sleeping = False
                if not woken and again is None and not self._queue:
                    self._thread = None
                    return []
            until = time.monotonic() + sending.linger_seconds
            while source is None and len(self._queue) < sending.batch_items and not self._closed:
                if self._hurried() or (left := until - time.monotonic()) <= 0:
                    break
                self._work_came.wait(left)
            if self._given_up() or not (source or self._queue):
                self._thread = None
                return []
            source = source or self._queue
            batch = [source.popleft()]
            size = len(batch[0].data)
            while source and len(batch) < sending.batch_items:
                size += len(source[0].data)
                if size > sending.batch_bytes:
                    break
                batch.append(source.popleft())
            self._under_way = batch
        return batch

    def _deliver(self, batch: list[_Entry], kept: list[_Entry]) -> None:
        """Sends a batch, kind by kind, and the parts it falls into, until all are answered or time is up.

        What the key is refused for goes to `kept`.
        """
        tries = self._sending.faulty_tries
        kinds = sorted({entry.kind for entry in batch}, key=KINDS.index)
        parts = deque(([entry for entry in batch if entry.kind == kind], tries) for kind in kinds)
        while parts:
            part, tries = parts.popleft()
            kind = part[0].kind
            if self._holds(kind):
                kept += part
                continue
            reply = self._send_until_answered(part, tries=tries)
            if reply is None:
                return
            if says_nothing(reply, len(part)):
                self._hold(kind, reply)
                kept += part
                continue
            self._release(kind)
            if len(part) > 1 and (reply.status in _SPLIT or reply.status >= 500):
                # One item that cannot be read, or breaks the server, takes the whole body with it: it is looked for.
                middle = len(part) // 2
                parts.extendleft([(part[middle:], 1), (part[:middle], 1)])
            else:
                self._take_answer(part, reply)

    # What is held

    def _room_for(self, kind: str) -> int:
        """How many may wait before an item of `kind` is dropped: what one scope lacks must not fill the whole queue."""
        held = self._held.get(kind)
        if held is None or held.status != 403:
            return self._sending.queue_items
        waiting = len(held.entries) + sum(entry.kind == kind for entry in self._under_way)
        return 0 if 2 * waiting >= self._sending.queue_items else self._sending.queue_items

    def _count_held(self) -> int:
        """Also those that are being tried again at this moment."""
        refused = {kind for kind, held in self._held.items() if held.status}
        waiting = sum(len(held.entries) for held in self._held.values())
        return waiting + sum(entry.kind in refused for entry in self._under_way)

    def _again_at(self, held: _Held) -> float:
        return min(held.until, held.soonest) if self._hurried() else held.until

    def _holds(self, kind: str) -> bool:
        """Whether items of `kind` are not to be sent now. Closing tries once more, at once."""
        with self._lock:
            held = self._held.get(kind)
            return held is not None and (held.final or (not self._closed and time.monotonic() < self._again_at(held)))

    def _due(self) -> deque[_Entry] | None:
        """Held items whose time has come."""
        return next((held.entries for kind, held in self._held.items() if held.entries and not self._holds(kind)), None)

    def _hold(self, kind: str, reply: Reply) -> None:
        """The key or the address is refused: says so once, and when it is tried again."""
        error = refused(reply)
        with self._lock:
            said = any(held.status == reply.status for held in self._held.values())
            held = self._held.setdefault(kind, _Held(deque()))
            most = min(
                self._sending.longest_pause_seconds, self._sending.first_pause_seconds * 2.0 ** min(held.tries, 30)
            )
            now = time.monotonic()
            held.until = now + max(_jitter.uniform(most / 2, most), reply.retry_after or 0.0)
            held.soonest = now + max(min(most, 0.25), reply.retry_after or 0.0)
            held.tries += 1
            held.status = reply.status
            held.final = self._closed
            self._key_refusals += 1
        if not said:
            self._warn(
                f"refused with {reply.status}",
                "the key or the address is refused (%s): items of %s wait in memory, at most %d, and are tried again",
                error, kind, self._sending.queue_items,
            )  # fmt: skip

    def _release(self, kind: str) -> None:
        with self._lock:
            if (held := self._held.get(kind)) is None or not held.tries:
                return
            held.status = held.tries = 0
            held.until = held.soonest = 0.0
            if not held.entries:
                del self._held[kind]
        with contextlib.suppress(Exception):
            logger.info("items of %s are taken again", kind)

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
                    if faulty >= tries or not (success or reply.status >= 500) or read_outcome(reply, len(part)):
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
        outcome = read_outcome(reply, len(part))
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
        except BaseException as error:  # noqa: BLE001 - the host's own function, in our thread: even its sys.exit()
            self._log("on_refused failed", exc_info=error)

    def _settle(self, batch: Sequence[_Entry], kept: Sequence[_Entry]) -> None:
        """A batch is over: what was neither answered nor is kept for a better key is lost."""
        with self._lock:
            self._under_way = []
            ended = len(batch)
            self._bytes -= sum(len(entry.data) for entry in batch)
            for kind in {entry.kind for entry in kept}:
                held = self._held.setdefault(kind, _Held(deque()))
                if held.final:  # closing: the rest of the kind would be refused as well
                    ended += len(held.entries)
                    self._bytes -= sum(len(entry.data) for entry in held.entries)
                    held.entries.clear()
                elif not self._over:
                    back = [entry for entry in kept if entry.kind == kind]
                    ended -= len(back)
                    self._bytes += sum(len(entry.data) for entry in back)
                    if held.entries and back[0].number < held.entries[0].number:
                        held.entries.extendleft(reversed(back))
                    else:
                        held.entries.extend(back)
            if not self._given_up():
                self._settled += ended
                self._lost = self._settled - self._acknowledged - self._refused
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
        if threading.current_thread() is self._thread:
            return False  # `on_refused` asks: it would wait for itself
        self._hurry_until = max(self._hurry_until, until)
        self._work_came.notify_all()
        while self._oldest() <= count:
            if self._thread is None:
                self._start()
            if self._thread is None or (left := until - time.monotonic()) <= 0:
                return False
            self._settled_some.wait(left)
        return True

    def _oldest(self) -> int:
        """The number of the first item that is not settled; one beyond the last when all are."""
        first = [waiting[0].number for waiting in (self._queue, self._under_way) if waiting]
        first += [held.entries[0].number for held in self._held.values() if held.entries]
        return min(first, default=self._recorded + 1)

    def _warn(self, about: str, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        """At most once a minute about each thing: a server that is away must not fill the host's log."""
        now = time.monotonic()
        if now - self._last_warning.get(about, -_WARN_SECONDS) >= _WARN_SECONDS:
            self._last_warning[about] = now
            self._log(message, *values, exc_info=exc_info)

    def _log(self, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        # A filter or a handler of the host's log may raise, and recording must not.
        with contextlib.suppress(Exception):
            logger.warning(message, *values, exc_info=exc_info)
