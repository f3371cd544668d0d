"""The text of an answer while its tokens come, in pieces that never change again. No torch.

A piece ends where the bytes so far are whole characters, and leaves out what may turn out to be a stop string. The
pieces together are the answer's text, so that a stream and a whole answer cannot differ. Called by `generation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\ufffd"


class GrowingText:
    """Fed one token at a time. `decode` turns tokens into text; `stops` end the text where the first of them begins."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stops = stops
        self._tokens: list[int] = []
        # Text is decoded from `_begin` on, a few tokens back: how a token reads may depend on its neighbour.
        self._begin = 0
        self._read = 0
        self._known = ""
        self._taken = 0
        self.stopped = False

    @property
    def text(self) -> str:
        """All that is known of the answer, without a stop string."""
        return self._known

    def add(self, token: int) -> None:
        """Takes in the next token; sets `stopped` when a stop string is complete."""
        self._tokens.append(token)
        before = self._decode(self._tokens[self._begin : self._read])
        after = self._decode(self._tokens[self._begin :])
        if len(after) > len(before) and not after.endswith(UNFINISHED):
            self._begin, self._read = self._read, len(self._tokens)
            self._grow(after[len(before) :])

    def write(self, text: str) -> None:
        """Takes in text that is known without its tokens."""
        self._grow(text)

    def end(self) -> None:
        """No more tokens come: bytes that are no whole character become U+FFFD."""
        if not self.stopped:
            before = self._decode(self._tokens[self._begin : self._read])
            self._grow(self._decode(self._tokens[self._begin :])[len(before) :])
            self._begin = self._read = len(self._tokens)

    def take(self, *, ended: bool) -> str:
        """What has become certain since the last call; when it has `ended`, all that is left."""
        certain = len(self._known) if ended or self.stopped else len(self._known) - self._doubtful()
        piece = self._known[self._taken : certain]
        self._taken = max(self._taken, certain)
        return piece

    def _grow(self, more: str) -> None:
        reach = max((len(stop) for stop in self._stops), default=0)
        start = max(0, len(self._known) - reach)
        self._known += more
        places = [place for stop in self._stops if (place := self._known.find(stop, start)) >= 0]
        if places:
            self._known, self.stopped = self._known[: min(places)], True

    def _doubtful(self) -> int:
        """Length of the longest ending that a stop string begins with."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(self._known)), 0, -1):
            if any(stop.startswith(self._known[-length:]) for stop in self._stops):
                return length
        return 0
