"""Programs whose clock is off: what they send is kept, and their key says so."""

import datetime as dt
from email.utils import format_datetime

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models import Decision
from tools.factories import DecisionFactory
from workspaces.models import ApiKey

pytestmark = pytest.mark.django_db
HOUR = 3600.0


@pytest.fixture
def client(api, agent):
    return api("decisions:write", "feedback:write")


def observed(hours):
    return (timezone.now() + dt.timedelta(hours=hours)).isoformat()


def decision(**more):
    return {"agent": "filer", "state": {"text": "x"}, "action": "travel", "policy_name": "rules"} | more


def dated(hours):
    return {"Date": format_datetime(timezone.now() + dt.timedelta(hours=hours), usegmt=True)}


def test_a_time_to_come_or_a_date_that_is_not_now_shows_at_the_key(client, agent, owner, workspace, page_client):
    def ahead():
        seconds = ApiKey.objects.get().clock_ahead_seconds
        return None if seconds is None else round(seconds / HOUR)

    row = DecisionFactory(agent=agent)
    verdict = {"decision_id": str(row.id), "metric": "mood", "value": "well"}
    steps = [
        ("decisions", decision(observed_at=observed(-24 * 300)), {}, None),  # an import, or kept while offline
        ("decisions", decision(observed_at=observed(0.05)), {}, None),
        ("decisions", [decision(), decision(observed_at=observed(48))], {}, 48),
        ("feedback", verdict | {"observed_at": observed(3)}, {}, 3),
        ("decisions", decision(), {}, 3),  # nothing is said of the time
        ("decisions", decision(), dated(0), None),
        ("feedback", verdict, dated(-48), -48),
        ("feedback", verdict, {"Date": "yesterday"}, -48),
    ]
    for path, body, headers, hours in steps:
        assert client.post(path, body, **headers).status_code == 201
        assert ahead() == hours, (path, body, headers)
    assert Decision.objects.filter(observed_at__gt=timezone.now()).count() == 2  # kept as they were sent
    key = ApiKey.objects.get()
    person = page_client(owner)
    for place in (
        reverse("pages:connect", args=[workspace.slug]),
        reverse("pages:key-limits", args=[workspace.slug, key.id]),
    ):
        assert "was 2 d behind" in " ".join(person.get(place).content.decode().split())


def test_a_clock_that_stays_wrong_is_not_written_with_every_request(client):
    client.post("decisions", decision(observed_at=observed(48)))
    seen = ApiKey.objects.get().clock_seen_at
    client.post("decisions", decision(observed_at=observed(48)))
    assert ApiKey.objects.get().clock_seen_at == seen
