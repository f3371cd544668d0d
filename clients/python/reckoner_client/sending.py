"""How recorded items travel, and the counts of what became of them."""

from __future__ import annotations

from dataclasses import astuple, dataclass

MAX_ITEM_BYTES = 9 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sending:
    """How recorded items travel. The defaults suit a web process.

    batch_items, batch_bytes: a request's most; the API takes 1,000 and 10 MB.
    linger_seconds: how long the first item of a batch waits for others.
    queue_items, queue_bytes: what may wait in memory, with what is under way. What comes on top is dropped.
    first_pause_seconds, longest_pause_seconds: before try n+1 passes a random time up to first · 2ⁿ, at most longest;
    at least what `Retry-After` says.
    faulty_tries: how often a batch is sent to a server that answers 500 before its halves are tried.
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
        if min(astuple(self)) < 0:
            raise ValueError("no number and no time is negative")


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of this process so far: recorded = acknowledged + refused + lost + pending. See docs/clients.md."""

    recorded: int = 0
    acknowledged: int = 0
    refused: int = 0
    lost: int = 0
    pending: int = 0
    dropped: int = 0
    retries: int = 0
    faults: int = 0
    held: int = 0
    key_refusals: int = 0
