"""A gateway that is stopped settles the calls that it cuts short, as those of clients that leave."""

import datetime as dt
import threading
from decimal import Decimal

import httpx
import pytest

from decisions.models import Decision
from models_registry.calls.records import close_abandoned
from models_registry.models import Backend, Call, KeySpend
from tests.project.gateway.conftest import PLAIN
from tests.project.gateway.test_chats import chat, wait_until
from workspaces.access.services import KeyLimits, create_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway"), pytest.mark.slow]
STOPPED = ("left", "The gateway was stopped.")
PATHS = {
    "/v1/chat/completions": chat(),
    "/v1/responses": {"model": "helper", "input": "How do I get to Oslo?"},
}


@pytest.fixture
def key(by):
    """Of a budget that is not reached."""
    limits = KeyLimits(spend_a_day=Decimal(1))
    return create_api_key(by=by, name="chats", scopes=["route:read"], limits=limits).token


def day():
    return KeySpend.objects.values_list("spent", "reserved").get()


class Asking(threading.Thread):
    """A client in a thread, until its answer ends: by `status` and `text`, which holds what has come so far."""

    def __init__(self, gateway, key, path, **fields):
        super().__init__(daemon=True)
        self.url, self.body, self.text, self.status, self.headers = gateway.url + path, PATHS[path] | fields, "", 0, {}
        self.own = {"Authorization": f"Bearer {key}", "Idempotency-Key": path.replace("/", "-")}
        self.start()

    def run(self):
        with httpx.stream("POST", self.url, json=self.body, headers=self.own, timeout=60, **PLAIN) as answer:
            self.status, self.headers = answer.status_code, answer.headers
            for piece in answer.iter_text():
                self.text += piece


@pytest.mark.parametrize("streamed, whole", [list(PATHS), list(PATHS)[::-1]], ids=["chat", "response"])
def test_calls_that_a_stop_cuts_short_are_settled_before_the_process_ends(gateway, key, helper, streamed, whole):
    Backend.objects.update(timeout_seconds=60)
    server = helper[2]
    server.pick = "one two three " + "more " * 100
    waiting = threading.Event()
    server.after = lambda number: waiting.wait(30) if number >= 3 else None
    stream = Asking(gateway, key, streamed, stream=True)
    wait_until(lambda: "three" in stream.text)
    server.held.clear()
    silent = Asking(gateway, key, whole)
    wait_until(lambda: len(server.asked) == 2)
    reserved = sum(Call.objects.filter(state="open").values_list("reserved", flat=True))
    assert day() == (0, reserved) and reserved > 0

    assert gateway.stop() == 0
    calls = Call.objects.order_by("opened_at")
    assert [(call.state, call.error) for call in calls] == [STOPPED] * 2
    left, unheard = (call.cost for call in calls)
    assert 0 < left < unheard
    assert day() == (left + unheard, 0)
    decision = Decision.objects.get()
    assert (decision.id, decision.completion, decision.finish_reason) == (calls[0].id, "one two three", "cut")
    assert (decision.cost, decision.tokens_estimated) == (left, True)
    stream.join(10), silent.join(10)
    assert stream.status == 200 and "The gateway is stopping" in stream.text
    assert (silent.status, silent.headers["retry-after"]) == (503, "1")

    assert close_abandoned(older_than=dt.timedelta(0)) == 0  # the sweep does not count them again
    assert day() == (left + unheard, 0)

    gateway.ensure()
    server.held.set()
    again = Asking(gateway, key, whole)  # under the same Idempotency-Key
    again.join(30)
    assert again.status == 200
    assert day() == (left + unheard + Call.objects.get(state="answered").cost, 0)
