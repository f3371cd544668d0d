"""Units that keep a version: who they are, what they get, and what is known of them later."""

import datetime as dt

import pytest
from django.utils import timezone

from decisions.models import Decision
from decisions.rewards.holdouts import count_units
from decisions.rewards.specs import current_reward_spec
from models_registry.experiments.holdouts import follow_holdouts, read_figures
from models_registry.experiments.promotion import promote_version
from models_registry.models import Alias, Experiment, Exposure, Holdout
from models_registry.routing.router import Router
from tests.models_registry.experiment_units import feed
from tools.factories import AliasFactory, DecisionFactory, ModelVersionFactory, RewardFactory, uuid7_at

pytestmark = pytest.mark.django_db
UNITS = [f"unit-{number}" for number in range(400)]
QUICK = {
    "exposure_window_seconds": 0,
    "attribution_window_seconds": 0,
    "min_units_per_arm": 50,
    "min_seconds": 0,
    "guardrails": [],
}


@pytest.fixture
def client(api):
    return api("admin")


@pytest.fixture
def versions(agent):
    made = ModelVersionFactory.create_batch(2, registered_model=agent.registered_model)
    AliasFactory(version=made[0])
    return made


@pytest.fixture
def hold(client, versions):
    def start(**fields):
        return client.post("holdouts", {"version": str(versions[0]), "share": 0.25, "reason": "a month"} | fields)

    return start


def test_held_units_keep_their_version_and_are_in_no_experiment(agent, by, versions, hold, client):
    assert hold().status_code == 201
    model = agent.registered_model
    promote_version(by=by, version=versions[1], reason="better")
    third = ModelVersionFactory(registered_model=model)
    assert client.post("experiments", {"treatment": str(third), "reason": "more"} | QUICK).status_code == 201
    router = Router(model)
    routes = [router.route(unit) for unit in UNITS]
    held = [route for route in routes if route.phase is None]
    assert 0.18 < len(held) / len(routes) < 0.32
    assert {(route.version, route.fallback) for route in held} == {(versions[0], versions[1])}
    assert {route.version for route in routes if route.phase is not None} == {versions[1], third}
    ended = client.post(f"holdouts/{Holdout.objects.get().id}/end", {"reason": "seen enough"})
    assert (ended.status_code, ended.json()["end_reason"]) == (200, "seen enough")
    router = Router(model)
    assert all(router.route(unit).phase is not None for unit in UNITS)
    again = client.post(f"holdouts/{Holdout.objects.get().id}/end", {"reason": "seen enough"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "holdout_over")


def test_the_gateway_asks_the_version_that_a_unit_keeps(agent, by, remote, api, client):
    first, _ = remote("gpt")
    second, _ = remote("gpt-2")
    client.post("holdouts", {"version": str(first), "share": 0.5, "reason": "a month"})
    promote_version(by=by, version=second, reason="better")
    ask = api("route:read").post
    for unit in UNITS[:20]:
        assert ask("agents/filer/decide", {"state": {"text": "Oslo"}, "unit": unit}).status_code == 201
    router, rows = Router(agent.registered_model), Decision.objects.all()
    assert {row.unit: row.model_version for row in rows} == {unit: router.route(unit).version for unit in UNITS[:20]}
    assert {row.model_version for row in rows} == {first, second} and not Exposure.objects.exists()


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"share": 0.6}, 400, "share"),
        ({"share": 0}, 400, "share"),
        ({"seconds": 0}, 400, "seconds"),
        ({"reason": " "}, 400, "reason"),
        ({"version": "filer:99"}, 404, "version"),
    ],
)
def test_what_makes_no_sense_holds_nobody(hold, fields, status, told):
    answer = hold(**fields)
    assert (answer.status_code, answer.json()["error"]["fields"][0]["field"]) == (status, told)
    assert not Holdout.objects.exists()


def test_one_at_a_time_and_not_into_a_running_experiment(hold, client, versions):
    assert client.post("experiments", {"treatment": str(versions[1]), "reason": "more"} | QUICK).status_code == 201
    assert (hold().status_code, hold().json()["error"]["code"]) == (409, "experiment_running")
    assert not Holdout.objects.exists()
    Experiment.objects.all().delete()
    assert hold().status_code == 201
    assert (hold().status_code, hold().json()["error"]["code"]) == (409, "holdout_running")
    assert Holdout.objects.count() == 1


def test_an_experiment_holds_its_control_out_once_it_is_beaten(client, versions, agent):
    planned = {"treatment": str(versions[1]), "reason": "more", "holdout_share": 0.1, "holdout_seconds": 3600}
    assert client.post("experiments", planned | QUICK | {"holdout_share": 0.9}).status_code == 400
    assert client.post("experiments", planned | QUICK).status_code == 201
    assert feed(Experiment.objects.get(), {"control": 0.2, "treatment": 0.9}).action == "promote"
    [holdout] = Holdout.objects.all()
    assert (holdout.version, holdout.share) == (versions[0], 0.1)
    assert (holdout.ends_at - holdout.started_at).total_seconds() == 3600
    assert Alias.objects.get(name="champion").version == versions[1]
    same = {"agent_version": 1, "reason": "x", "holdout_share": 0.1}
    refused = client.post("agents/filer/experiments", same)
    assert refused.status_code == 400 and Experiment.objects.count() == 1


class TestFigures:
    @pytest.fixture
    def holdout(self, hold, versions, by):
        hold()
        promote_version(by=by, version=versions[1], reason="better")
        weeks_ago = timezone.now() - dt.timedelta(days=10)
        Holdout.objects.update(started_at=weeks_ago)
        return Holdout.objects.get()

    @pytest.fixture
    def rewarded(self, agent, holdout):
        """Two decisions a unit, in the first and in the second week: held units get .2 and .4, the others .6 and .8."""
        router, spec = Router(agent.registered_model), current_reward_spec(agent)
        held = {unit for unit in UNITS[:60] if router.route(unit).version == holdout.version}
        for unit in UNITS[:60]:
            for week, more in enumerate((0.0, 0.2)):
                moment = holdout.started_at + dt.timedelta(days=8 * week, hours=1)
                row = DecisionFactory(
                    agent=agent, id=uuid7_at(moment), unit=unit, recorded_at=moment, policy_name=None,
                    model_version=holdout.version,
                )  # fmt: skip
                value = (0.2 if unit in held else 0.6) + more
                RewardFactory(decision=row, spec=spec, value=value, version=1)
        return held

    def test_the_database_holds_whom_the_router_holds(self, holdout, rewarded, client):
        found = {one.week: one for one in count_units(holdout, timezone.now())}
        assert set(found) == {None, 0, 1}
        for week, mean in ((0, 0.2), (1, 0.4), (None, 0.3)):
            assert (found[week].held.units, found[week].served.units) == (len(rewarded), 60 - len(rewarded))
            assert found[week].held.mean == pytest.approx(mean)
            assert found[week].served.mean == pytest.approx(mean + 0.4)
        assert follow_holdouts() == 1 and follow_holdouts() == 0
        told = client.get(f"holdouts/{holdout.id}").json()
        assert (told["units_held"], told["mean_held"]) == (len(rewarded), pytest.approx(0.3))
        assert [one["week"] for one in told["weeks"]] == [0, 1]

    def test_its_time_is_up_and_a_day_later_its_figures_stay(self, holdout, rewarded):
        now = timezone.now()
        Holdout.objects.update(ends_at=now)
        assert follow_holdouts(now) == 1
        holdout.refresh_from_db()
        assert (holdout.ended_at, holdout.end_reason) == (now, "")
        hours = [follow_holdouts(now + dt.timedelta(hours=hour)) for hour in (0.5, 1.5, 24, 25, 50)]
        assert hours == [0, 1, 1, 0, 0]
        holdout.refresh_from_db()
        assert read_figures(holdout)[0].held.units == len(rewarded)
