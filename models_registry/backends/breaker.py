"""A circuit breaker for one server, in one process. PURE: the clock is the caller's.

After `most` failures in a row, or one answer that did not come in time, nobody asks for `rest` seconds. Then one caller
tries, and the others still do not: if it succeeds the circuit closes, else it rests again.
"""

from __future__ import annotations

import threading

MOST_FAILURES = 3
REST_SECONDS = 5.0


class Breaker:
    """Shared by the threads of a process; times are seconds of any clock that does not go back."""

    def __init__(self, *, most: int = MOST_FAILURES, rest: float = REST_SECONDS) -> None:
        self._most, self._rest = most, rest
        self._failures = 0
        self._until: float | None = None
        self._lock = threading.Lock()

    def allows(self, now: float) -> bool:
        """Whether to ask. True for one caller each time that a rest is over."""
        with self._lock:
            if self._until is None:
                return True
            if now < self._until:
                return False
            self._until = now + self._rest
            return True

    def rests(self, now: float) -> bool:
        """Whether nobody asks at this moment; asking this changes nothing."""
        with self._lock:
            return self._until is not None and now < self._until

    def succeeded(self) -> None:
        with self._lock:
            self._failures, self._until = 0, None

    def failed(self, now: float, *, at_once: bool = False) -> None:
        """`at_once`: the answer did not come in time, which costs every caller that time."""
        with self._lock:
            self._failures += 1
            if at_once or self._failures >= self._most:
                self._until = now + self._rest
