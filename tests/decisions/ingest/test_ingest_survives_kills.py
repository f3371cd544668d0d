"""kill -9 of the web processes and of PostgreSQL while decisions come in: what was acknowledged is stored, once."""

import pytest

from tests.template_database import migrate_instance
from tools.killing import POSTGRES, WEB, kill_while_sending, run_on_instance, stored


@pytest.mark.slow
def test_what_was_acknowledged_is_stored_once_whatever_is_killed(db):
    def work(instance, token):
        for words in (WEB, POSTGRES):
            senders, _ = kill_while_sending(instance, token, words, times=1, a_second=40)
            there = stored(instance, senders)
            assert len(senders.acknowledged) > 10
            assert senders.repeated > 0  # the kills landed in the middle of it
            assert not senders.refused
            assert set(there) == senders.acknowledged
            assert set(there.values()) == {1}

    # Not in pytest's own folder: another session closes that to the user that PostgreSQL runs as.
    run_on_instance(work, prepare=migrate_instance)
