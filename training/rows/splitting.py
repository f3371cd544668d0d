"""Decides which decisions are held out, so that nothing of them leaks: those of one unit, of one episode or of nearly
the same text stand on one side. PURE.

Decisions in an environment are held out by their task. All their texts are made alike there, so nearly the same text
would join one task with the next, until all of them stood on one side.

Nearly the same: the texts' sets of three words in a row have a Jaccard similarity of about ALIKE, by MinHash (Broder
1997) with locality-sensitive hashing. Texts that differ in case, digits' or signs' spelling only are the same.
"""

from __future__ import annotations

import hashlib
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models_registry.backends.chat_reading import ChatFault, has_messages, split_state

ALIKE = 0.8
WORDS = 3
BANDS, ROWS = 12, 6
"""A pair with similarity s is compared with probability 1 − (1 − s^ROWS)^BANDS: .98 at .8, .17 at .5."""
_PRIME = np.uint64(2**31 - 1)
_RNG = np.random.default_rng(20)
_A = _RNG.integers(1, 2**31 - 1, size=BANDS * ROWS, dtype=np.uint64)
_B = _RNG.integers(0, 2**31 - 1, size=BANDS * ROWS, dtype=np.uint64)
WORD = re.compile(r"\w+")


STATE_IN_AN_ENVIRONMENT = frozenset({"environment", "domain", "task", "observation"})
"""The fields of the state of a decision in an environment, and no others."""


class Groups(NamedTuple):
    """How many groups of decisions belong together, how many decisions the largest has, and whether it is held out."""

    number: int
    largest: int
    largest_is_held_out: bool


class Relations:
    """Groups of decisions that belong together: union-find over their order of arrival."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._ids: list[uuid.UUID] = []
        self._signatures: list[NDArray[np.uint32]] = []
        self._seen: dict[Hashable, int] = {}

    def add(
        self,
        decision: uuid.UUID,
        *,
        unit: str | None,
        episode: uuid.UUID | None,
        text: str,
        task: str | None = None,
    ) -> None:
        """`task` as of `task_of`: with one, unit and text join nothing."""
        here = len(self._parent)
        self._parent.append(here)
        self._ids.append(decision)
        joins = (("task", task) if task is not None else ("unit", unit), ("episode", episode))
        for name, value in joins:
            if value:
                self._join(here, self._seen.setdefault((name, value), here))
        signature = sign(text if task is None else "")
        self._signatures.append(signature)
        for band in range(BANDS if len(signature) else 0):
            # A hash for a key takes little memory; what collides is compared, as the others are.
            key = hash((band, signature[band * ROWS : (band + 1) * ROWS].tobytes()))
            bucket = self._seen.setdefault(key, here)
            if bucket != here and np.mean(self._signatures[bucket] == signature) >= ALIKE:
                self._join(here, bucket)

    def hold_out(self, share: float) -> list[bool]:
        """For each decision in the order of arrival, whether it is held out. A group is, by a hash of its oldest
        decision's id: when the ledger grows, it stays on its side."""
        oldest: dict[int, uuid.UUID] = {}
        for here, decision in enumerate(self._ids):
            root = self._find(here)
            oldest[root] = min(oldest.get(root, decision), decision)
        held = {root: _fraction(decision) < share for root, decision in oldest.items()}
        return [held[self._find(here)] for here in range(len(self._ids))]

    def count_groups(self, sides: Sequence[bool]) -> Groups:
        """`sides`: what `hold_out` said."""
        roots = Counter(self._find(here) for here in range(len(self._ids)))
        if not roots:
            return Groups(0, 0, False)
        root, decisions = roots.most_common(1)[0]
        return Groups(len(roots), decisions, sides[root])

    def stand_with(self, decisions: Collection[uuid.UUID]) -> list[bool]:
        """For each decision in the order of arrival, whether it belongs together with one of these."""
        known = frozenset(decisions)
        roots = {self._find(here) for here, decision in enumerate(self._ids) if decision in known}
        return [self._find(here) in roots for here in range(len(self._ids))]

    def _find(self, here: int) -> int:
        while self._parent[here] != here:
            self._parent[here] = self._parent[self._parent[here]]
            here = self._parent[here]
        return here

    def _join(self, one: int, other: int) -> None:
        low, high = sorted((self._find(one), self._find(other)))
        self._parent[high] = low


def _fraction(decision: uuid.UUID) -> float:
    return int.from_bytes(hashlib.sha256(decision.bytes).digest()[:8]) / 2**64


def sign(text: str) -> NDArray[np.uint32]:
    """The text's MinHash signature, (BANDS · ROWS,); empty for a text without words. The least of (a x + b) mod p over
    the hashes x of its shingles, for each a and b."""
    words = WORD.findall(text.casefold())
    if not words:
        return np.empty(0, dtype=np.uint32)
    shingles = {" ".join(words[at : at + WORDS]) for at in range(max(1, len(words) - WORDS + 1))}
    hashes = np.array([zlib.crc32(one.encode()) & 0x7FFFFFFF for one in shingles], dtype=np.uint64)
    values = (_A[:, None] * hashes[None, :] + _B[:, None]) % _PRIME
    return values.min(axis=1).astype(np.uint32)


def task_of(state: Any) -> str | None:
    """A name for the task in which a decision of an environment was made, the same for the same words of it; None for
    a decision outside of environments."""
    if not isinstance(state, Mapping) or state.keys() != STATE_IN_AN_ENVIRONMENT:
        return None
    environment, task = state["environment"], state["task"]
    if not isinstance(environment, str) or not isinstance(task, str):
        return None
    return f"{environment}/{hashlib.sha256(task.encode(errors='surrogatepass')).hexdigest()[:16]}"


def text_of(state: Any) -> str:
    """What a state says: its texts, without names of fields, ids and numbers.

    Of a chat, what was said in it and nothing of its system prompt and tools, which the chats of one client share; the
    last question, which the state repeats, counts once.
    """
    if isinstance(state, Mapping) and has_messages(state):
        with suppress(ChatFault):
            beside, chat = split_state(state)
            return " ".join([*_texts(beside), chat])
    return " ".join(_texts(state))


def _texts(node: Any, name: str = "") -> Iterator[str]:
    if isinstance(node, str) and not name.casefold().endswith("id"):
        yield node
    elif isinstance(node, Mapping):
        for key in sorted(node):
            yield from _texts(node[key], key)
    elif isinstance(node, list):
        for inner in node:
            yield from _texts(inner, name)
