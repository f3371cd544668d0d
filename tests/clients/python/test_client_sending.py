"""What the client's queue does: batches, refusals, retries, drops."""

from __future__ import annotations

import base64
import datetime as dt
import json
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from reckoner_client import ConfigurationError, Reckoner, Refused, Sending, uuid7

from decisions.models import Decision, Feedback
from tests.clients.python.gateway import Gateway

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def decide_here(client: Reckoner, text: str = "a flight", **fields: Any) -> uuid.UUID:
    return client.record_decision("filer", {"text": text}, "travel", **{"policy_name": "outside"} | fields)


def test_decisions_and_feedback_arrive_in_batches_with_their_fields(
    make_client: Callable[..., Reckoner], gateway: Gateway
) -> None:
    client = make_client(gateway.url, batch_items=7, linger_seconds=0.5)
    moment = dt.datetime(2026, 3, 4, 5, 6, 7, tzinfo=dt.UTC)
    full = client.record_decision(
        "filer", {"text": "a flight", "seen": {1, 2}}, "travel", policy_name="outside", observed_at=moment,
        propensity=0.7, reasoning="it flies" * 100_000, episode="e-1", unit="note-17", cost=0.25,
    )  # fmt: skip
    others = [decide_here(client, f"text {number}") for number in range(20)]
    feedback = client.record_feedback("verdict", "confirmed", decision_id=full)

    assert client.flush()
    stored = Decision.objects.get(id=full)
    assert stored.state == {"text": "a flight", "seen": [1, 2]}
    assert (stored.observed_at, stored.episode.external_id, stored.unit) == (moment, "e-1", "note-17")
    assert (stored.propensity, len(stored.reasoning), float(stored.cost)) == (0.7, 200_000, 0.25)
    assert Decision.objects.filter(id__in=others).count() == 20
    assert Feedback.objects.get(id=feedback).decision_id == full
    stats = client.stats()
    assert (stats.recorded, stats.acknowledged, stats.pending, stats.refused) == (22, 22, 0, 0)
    assert max(len(json.loads(body)) for _, _, body in gateway.seen) == 7


def test_ids_are_uuid7_of_now_in_order() -> None:
    made = [uuid7() for _ in range(1000)]
    assert {(one.version, one.variant) for one in made} == {(7, uuid.RFC_4122)}
    assert len(set(made)) == 1000
    assert [one.int >> 64 for one in made] == sorted(one.int >> 64 for one in made)
    assert abs((made[0].int >> 80) / 1000 - time.time()) < 60


def test_what_is_not_kept_is_reported_item_by_item_and_the_rest_is_kept(
    client: Reckoner, refusals: list[Refused], agent: Any
) -> None:
    good = decide_here(client)
    bad = decide_here(client, propensity=1.7)
    unknown = client.record_decision("nobody", {}, "travel", policy_name="outside")
    assert client.flush()

    assert set(Decision.objects.values_list("id", flat=True)) == {good}
    assert [(r.item["id"], r.kind, r.status, r.code) for r in refusals] == [
        (str(bad), "decisions", 207, "invalid_input"),
        (str(unknown), "decisions", 207, "invalid_input"),
    ]
    assert refusals[0].fields[0]["field"] == "propensity"
    assert refusals[0].item["propensity"] == 1.7
    assert (client.stats().acknowledged, client.stats().refused) == (1, 2)


def test_a_body_that_cannot_be_read_is_split_until_the_item_is_found(
    client: Reckoner, gateway: Gateway, make_client: Callable[..., Reckoner], refusals: list[Refused]
) -> None:
    """What makes the API refuse the whole body is found; a fault of the server before is another matter."""
    careful = make_client(gateway.url, linger_seconds=5.0)
    gateway.plan.append((500, {}))
    good = [decide_here(careful, f"text {number}") for number in range(9)]
    gateway.unreadable = b"unreadable"
    bad = careful.record_decision("filer", {"text": "unreadable"}, "travel", policy_name="outside")
    good += [decide_here(careful, f"text {number}") for number in range(9, 20)]
    assert careful.flush()
    assert set(Decision.objects.values_list("id", flat=True)) == set(good)
    assert [(refusal.item["id"], refusal.status) for refusal in refusals] == [(str(bad), 400)]
    assert careful.stats().retries == 1
    assert len(gateway.seen) > 5


def test_an_integer_beyond_64_bits_is_refused_alone(
    client: Reckoner, gateway: Gateway, make_client: Callable[..., Reckoner], refusals: list[Refused]
) -> None:
    careful = make_client(gateway.url, linger_seconds=5.0)
    good = [decide_here(careful, "one")]
    bad = careful.record_decision("filer", {"text": "t", "number": 2**63}, "travel", policy_name="outside")
    good.append(decide_here(careful, "two"))
    assert careful.flush()
    assert set(Decision.objects.values_list("id", flat=True)) == set(good)
    assert [(refusal.item["id"], refusal.status) for refusal in refusals] == [(str(bad), 207)]
    assert len(gateway.seen) == 1


def test_what_a_host_may_hand_over_is_made_fit(client: Reckoner, refusals: list[Refused]) -> None:
    class Strange:
        def __repr__(self) -> str:
            raise ValueError("no repr either")

    class Model:
        def model_dump(self) -> dict[str, int]:
            return {"x": 1}

    loop: list[Any] = []
    loop.append(loop)
    state = {
        "text": "nul \x00 and a lone \ud800", "large": 2**80, "strange": Strange(), "model": Model(), "loop": loop,
        "error": ValueError("why"), "moment": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), 7: "seven", "nan": float("nan"),
    }  # fmt: skip
    made = client.record_decision("filer", state, "travel", policy_name="outside")
    plain = client.record_decision("filer", {"model": Model(), "error": ValueError("why")}, "travel", policy_name="p")
    state["text"] = "changed afterwards, which changes nothing"
    assert client.flush()
    assert refusals == []
    stored = Decision.objects.get(id=made).state
    assert stored["text"] == "nul \ufffd and a lone \ufffd"
    assert (stored["large"], stored["strange"], stored["model"]) == (str(2**80), "<Strange>", {"x": 1})
    assert (stored["error"], stored["7"], stored["nan"]) == ("ValueError: why", "seven", None)
    assert Decision.objects.get(id=plain).state == {"model": {"x": 1}, "error": "ValueError: why"}
    assert client.stats().faults == 0


def test_a_key_makes_feedback_count_once(client: Reckoner, make_client: Callable[..., Reckoner]) -> None:
    made = decide_here(client)
    other = make_client()
    for one in (client, other, client):
        assert one.record_feedback("verdict", "confirmed", decision_id=made, idempotency_key="click-1") is None
        assert one.flush()
    assert Feedback.objects.filter(decision_id=made).count() == 1
    assert (client.stats().refused, other.stats().acknowledged) == (0, 1)


@pytest.mark.parametrize(
    ("plan", "times"),
    [
        (["break", "lose the answer"], 3),
        ([(503, {}), (502, {}), (429, {}), (507, {})], 5),
        ([(500, {}), (500, {})], 3),
    ],
    ids=["broken and lost", "away", "faulty"],
)
def test_what_was_not_acknowledged_is_sent_again_with_the_same_id(
    plan: list[Any], times: int, gateway: Gateway, make_client: Callable[..., Reckoner]
) -> None:
    client = make_client(gateway.url)
    gateway.plan.extend(plan)
    made = decide_here(client)
    assert client.flush(60)
    assert list(Decision.objects.values_list("id", flat=True)) == [made]
    assert len({body for _, _, body in gateway.seen}) == 1
    assert len(gateway.seen) == times
    assert (client.stats().acknowledged, client.stats().retries) == (1, times - 1)


def test_the_server_s_retry_after_is_waited_for_even_in_a_hurry(
    gateway: Gateway, make_client: Callable[..., Reckoner]
) -> None:
    client = make_client(gateway.url)
    gateway.plan.append((503, {"Retry-After": "1"}))
    decide_here(client)
    assert client.flush(60)
    first, second = (moment for moment, _, _ in gateway.seen)
    assert second - first >= 1.0


def test_pauses_grow_and_differ(monkeypatch: pytest.MonkeyPatch, gateway: Gateway, make_client: Any) -> None:
    """Full jitter: try n + 1 comes after a random part of first · 2ⁿ, at most the longest."""
    from reckoner_client import sender

    asked: list[tuple[float, float]] = []

    class Drawn(sender.random.Random):
        def uniform(self, low: float, high: float) -> float:
            asked.append((low, high))
            return super().uniform(low, high)

    monkeypatch.setattr(sender, "_jitter", Drawn(1))
    monkeypatch.setattr(sender, "FIRST_PAUSE_SECONDS", 0.02)
    client = make_client(gateway.url)
    gateway.plan.extend([(503, {})] * 4)
    decide_here(client)
    assert client.flush(60)
    assert asked == [(0, 0.02), (0, 0.04), (0, 0.08), (0, 0.1)]


def test_a_callback_that_fails_or_waits_does_not_stop_the_sending(
    live_server: Any, key: str, agent: Any, caplog: Any
) -> None:
    errors: list[BaseException] = [ValueError("the host's own bug"), SystemExit(1)]
    waited: list[bool] = []

    def fail(refusal: Refused) -> None:
        waited.append(client.flush(3600))  # in the thread that it would wait for
        raise errors.pop()

    with Reckoner(live_server.url, key, on_refused=fail) as client:
        for _ in range(2):
            decide_here(client, propensity=2)
            assert client.flush(60)
        good = decide_here(client)
        assert client.flush(60)
    assert list(Decision.objects.values_list("id", flat=True)) == [good]
    assert (waited, errors) == ([False, False], [])
    assert caplog.text.count("on_refused failed") == 1  # at most once a minute


def test_a_full_queue_drops_the_newest_counts_them_and_says_so(
    make_client: Callable[..., Reckoner], gateway: Gateway, caplog: Any
) -> None:
    gateway.plan.extend([(503, {"Retry-After": "300"})])
    client = make_client(gateway.url, queue_items=10, exit_seconds=0)
    with caplog.at_level(logging.WARNING, "reckoner_client"):
        for number in range(25):
            decide_here(client, f"text {number}")
    stats = client.stats()
    assert (stats.recorded, stats.dropped, stats.pending) == (25, 15, 10)
    assert caplog.text.count("the queue is full") == 1
    assert not client.close(0)
    assert (client.stats().dropped, client.stats().pending) == (25, 0)
    assert decide_here(client).version == 7  # closed: nothing is taken, and nothing raised
    assert client.stats().dropped == 26

    gateway.plan.extend([(503, {"Retry-After": "300"})])
    bounded = make_client(gateway.url, queue_bytes=10_000)
    for _ in range(5):
        decide_here(bounded, "x" * 3_000)
    assert (bounded.stats().recorded, bounded.stats().dropped) == (5, 2)
    assert Decision.objects.count() == 0


@pytest.mark.parametrize("around", [None, "localhost,127.0.0.1"])
def test_the_environment_s_proxy_forwards_and_may_ask_for_a_password(
    around: str | None, monkeypatch: Any, gateway: Gateway, live_server: Any, key: str, agent: Any
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", gateway.url.replace("http://", "http://ann:secret@"))
    if around is not None:
        monkeypatch.setenv("NO_PROXY", around)
    client = Reckoner(live_server.url, key, sending=Sending(linger_seconds=0))
    decide_here(client)
    assert client.close(60)
    assert Decision.objects.count() == 1
    assert [path for _, path, _ in gateway.seen] == ([] if around else [f"{live_server.url}/api/v1/decisions"])
    assert gateway.logins == ([] if around else ["Basic " + base64.b64encode(b"ann:secret").decode()])


def test_set_up_says_what_is_missing_and_a_client_that_is_not_enabled_needs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RECKONER_URL", raising=False)
    monkeypatch.delenv("RECKONER_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="RECKONER_URL"):
        Reckoner()
    with pytest.raises(ConfigurationError, match="RECKONER_KEY"):
        Reckoner("http://127.0.0.1:8000")
    with pytest.raises(ConfigurationError, match="address is not http"):
        Reckoner("127.0.0.1", "a.key")
    monkeypatch.setenv("http_proxy", "socks5://ann:secret@127.0.0.1:1080")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigurationError, match="proxy") as caught:
        Reckoner("http://127.0.0.1:8000", "a.key")
    assert "secret" not in str(caught.value)

    idle = Reckoner(enabled=False)
    assert decide_here(idle).version == 7
    assert idle.flush()
    assert idle.close()
    with pytest.raises(ConfigurationError):
        idle.decide("filer", {})


def test_a_correction_waits_for_its_decision(
    make_client: Callable[..., Reckoner], gateway: Gateway, agent: Any
) -> None:
    client = make_client(gateway.url)
    gateway.plan.append((503, {"Retry-After": "1"}))
    decision = decide_here(client)
    early = client.record_feedback("minutes_saved", 3, decision_id=decision)
    late = client.record_feedback("verdict", "corrected", correction="health", decision_id=decision)
    assert client.flush()
    assert client.stats().refused == 0
    assert [path.rsplit("/", 1)[1] for _, path, _ in gateway.seen][-2:] == ["decisions", "feedback"]
    assert Feedback.objects.get(id=late).correction == "health"
    assert Feedback.objects.get(id=early).correction is None
