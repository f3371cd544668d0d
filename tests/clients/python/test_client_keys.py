"""What the client does while its key, or its address, is refused: it holds what was recorded until it is taken."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from reckoner_client import ConfigurationError, Reckoner, Refused

from decisions.models import Decision, Feedback
from tests.clients.python.gateway import Gateway
from workspaces.models import ApiKey

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def decide_here(client: Reckoner, text: str = "a flight") -> uuid.UUID:
    return client.record_decision("filer", {"text": text}, "travel", policy_name="outside")


def wait_for(what: Callable[[], bool]) -> None:
    """What the client's thread does by itself; a hang is the test run's time-out."""
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.fixture
def make_key(workspace: Any) -> Callable[..., str]:
    from workspaces.access.actors import system
    from workspaces.access.services import create_api_key

    def make(*scopes: str) -> str:
        return str(create_api_key(by=system(workspace), name="client", scopes=scopes).token)

    return make


def test_a_rotated_key_is_taken_up_without_a_restart(
    make_client: Callable[..., Reckoner], make_key: Callable[..., str], refusals: list[Refused], caplog: Any
) -> None:
    keys = ["nobody.knows-this-one"]
    client = make_client(key_=lambda: keys[-1] + "\n", batch_items=10)
    made = [decide_here(client, f"text {number}") for number in range(25)]
    verdict = client.record_feedback("verdict", "confirmed", decision_id=made[0])
    wait_for(lambda: client.stats().retries >= 3)
    assert not client.flush(0.2)
    stats = client.stats()
    assert (stats.recorded, stats.pending, stats.dropped, stats.acknowledged) == (26, 26, 0, 0)
    assert Decision.objects.count() == 0

    keys.append("no header\x00can hold this")
    keys.append(make_key("admin"))
    assert client.flush(60)
    assert set(Decision.objects.values_list("id", flat=True)) == set(made)
    assert Feedback.objects.get().id == verdict
    assert (client.stats().acknowledged, client.stats().dropped, refusals) == (26, 0, [])
    # Once a kind and not once a try.
    refused = "(401 not_authenticated: This key is unknown, expired or revoked.)"
    assert caplog.text.count(f"are sent again: the key or the address is refused {refused}") == 2


def test_what_the_key_may_send_goes_on_while_the_rest_is_held(
    make_client: Callable[..., Reckoner], make_key: Callable[..., str]
) -> None:
    """The key may record decisions and no feedback, of which there is more than may wait."""
    key = make_key("decisions:write")
    client = make_client(key_=key, queue_items=3)
    made = []
    for number in range(9):
        made.append(decide_here(client, f"text {number}"))
        client.record_feedback("verdict", "confirmed", decision_id=made[-1])
        wait_for(lambda: client.stats().acknowledged == len(made))
    assert set(Decision.objects.values_list("id", flat=True)) == set(made)
    assert Feedback.objects.count() == 0
    assert (client.stats().pending, client.stats().dropped) == (3, 6)

    ApiKey.objects.filter(prefix=key.partition(".")[0]).update(scopes=["decisions:write", "feedback:write"])
    assert client.flush(60)
    assert set(Feedback.objects.values_list("decision_id", flat=True)) == set(made[:3])  # the newest were dropped


@pytest.mark.parametrize(
    "answer",
    [(403, {}), (404, {}), (407, {}), (302, {"Location": "/log-in"}), (400, {}), (201, {})],
    ids=["scope", "path", "proxy", "redirect", "page of 400", "page of 201"],
)
def test_an_answer_that_says_nothing_of_the_items_loses_none(
    answer: tuple[int, dict[str, str]], make_client: Callable[..., Reckoner], gateway: Gateway, refusals: list[Refused]
) -> None:
    client = make_client(gateway.url, batch_items=4)
    gateway.plan.extend([answer] * 4)
    made = [decide_here(client, f"text {number}") for number in range(9)]
    assert client.flush(60)
    assert set(Decision.objects.values_list("id", flat=True)) == set(made)
    assert (client.stats().acknowledged, client.stats().retries, refusals) == (9, 4, [])
    taken = [item["id"] for _, _, body in gateway.seen[4:] for item in json.loads(body)]
    assert taken == [str(one) for one in made]  # in the order in which they were recorded


@pytest.mark.parametrize("key", ["  \n", "a key\x00", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_at_set_up(key: str) -> None:
    with pytest.raises(ConfigurationError, match="key"):
        Reckoner("http://127.0.0.1:8000", key)
