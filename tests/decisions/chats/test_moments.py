"""A chat's moments are of one clock, whatever this machine's does meanwhile."""

import datetime as dt
import time
from types import SimpleNamespace

from django.utils import timezone

from decisions.chats.answering import Begun
from tests.clocks import moved_clock  # noqa: F401 - a fixture


def test_a_moment_of_a_chat_is_by_the_clock_that_opened_its_call(moved_clock):  # noqa: F811
    opened = timezone.now()
    nothing = SimpleNamespace()
    begun = Begun(nothing, nothing, nothing, (), (), time.perf_counter() - 2, opened)
    moved_clock.set_ahead(hours=48)
    assert dt.timedelta(seconds=2) <= begun.moment - opened < dt.timedelta(seconds=10)
