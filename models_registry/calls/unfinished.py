"""The calls that threads of this process have open. They would stay open when the process is stopped, so whatever stops
it abandons them: the web's worker does. The gateway of chats settles its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from models_registry.calls.records import abandon_calls

_lock = threading.Lock()
_open: set[uuid.UUID] = set()


@contextmanager
def answering(ids: Iterable[uuid.UUID]) -> Iterator[None]:
    """The calls are open, and whoever asks closes them."""
    held = set(ids)
    with _lock:
        _open.update(held)
    try:
        yield
    finally:
        with _lock:
            _open.difference_update(held)


def abandon_unfinished() -> int:
    """Closes what is open, at what it reserved; the process answers nothing more. Returns how many calls that were."""
    with _lock:
        held = list(_open)
    return abandon_calls(held) if held else 0
