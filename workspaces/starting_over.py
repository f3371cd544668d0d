"""A request whose transaction may be taken back whole and asked again from the start, with more care.

What goes wrong in the middle of a transaction can be taken back to a savepoint, at the price of two questions to the
database. Where something hardly ever goes wrong, and nothing but the transaction would have to be done again, it is
cheaper to do all of it twice when it does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


class StartOver(Exception):
    """Take the transaction back and ask again, carefully. Only where `may_start_over` says so."""


_careful: ContextVar[bool | None] = ContextVar("careful", default=None)


def starting_over(ask: Callable[[], T]) -> T:
    """`ask()`, which makes a transaction of its own; once more when it raises StartOver."""
    for careful in (False, True):
        token = _careful.set(careful)
        try:
            return ask()
        except StartOver:
            if careful:
                raise
        finally:
            _careful.reset(token)
    raise AssertionError("the second time ends")


def may_start_over() -> bool:
    """Whether StartOver is heard."""
    return _careful.get() is False


def is_careful() -> bool:
    """Whether this is the second time."""
    return _careful.get() is True
