"""Windows of experiments close by the database's clock: nothing matures early or twice where a worker's clock jumps."""

import datetime as dt
import threading

import pytest
from django.db import connection
from django.utils import timezone

from decisions.models import Decision, Feedback
from decisions.rewards.maturing import mature_outcomes
from models_registry.experiments.log import is_look_due
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, Exposure, Look, Observation
from models_registry.routing.router import Router
from tests.clocks import MovedClock, moved_clock  # noqa: F401 - a fixture
from tests.decisions.conftest import body, verdict
from tools.factories import AliasFactory, DecisionFactory, FeedbackFactory, ModelVersionFactory

DAYS = (dt.timedelta(hours=48), dt.timedelta(hours=-48))


@pytest.fixture
def start(agent, by):
    """`start()`: an experiment with windows of ten and twenty minutes."""

    def begin() -> Experiment:
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        plan = ExperimentPlan(exposure_window_seconds=600, attribution_window_seconds=1200, missing="exclude")
        tried = ModelVersionFactory(registered_model=agent.registered_model)
        return start_experiment(by=by, treatment=tried, plan=plan, reason="a better one")

    return begin


def expose(experiment, agent, unit, ago):
    route, moment = Router(agent.registered_model).route(unit), timezone.now() - dt.timedelta(minutes=ago)
    exposure = Exposure.objects.create(
        workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=unit, arm=route.arm,
        served_arm=route.arm, assignment_probability=route.assignment_probability, version=route.version,
        exposed_at=moment,
    )  # fmt: skip
    decision = DecisionFactory(
        agent=agent, exposure=exposure, unit=unit, policy_name=None, model_version=route.version, observed_at=moment
    )
    FeedbackFactory(decision=decision, value="confirmed", observed_at=moment + dt.timedelta(minutes=1))


@pytest.mark.django_db
@pytest.mark.parametrize("ahead", DAYS, ids=str)
def test_a_worker_whose_clock_is_days_off_looks_at_what_has_matured(moved_clock: MovedClock, start, agent, ahead):  # noqa: F811
    experiment = start()
    expose(experiment, agent, "old", 31)
    expose(experiment, agent, "young", 29)
    moved_clock.ahead = ahead
    for _ in range(2):
        mature_outcomes()
    assert list(Observation.objects.values_list("unit", flat=True)) == ["old"]
    assert not is_look_due(experiment)  # the last one was a moment ago


@pytest.mark.django_db
@pytest.mark.parametrize("ahead", DAYS, ids=str)
def test_an_experiment_begins_when_it_began(moved_clock: MovedClock, start, ahead):  # noqa: F811
    true = timezone.now()
    moved_clock.ahead = ahead
    experiment = start()
    experiment.refresh_from_db()
    moments = [experiment.started_at, Look.objects.get(experiment=experiment).at]
    assert all(abs(moment - true) < dt.timedelta(seconds=30) for moment in moments)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_looks_at_once_count_a_unit_once(start, agent):
    """As two workers do that two beats have asked."""
    experiment = start()
    for number in range(20):
        expose(experiment, agent, f"unit-{number}", 31)
    errors = []

    def look():
        try:
            mature_outcomes()
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(Observation.objects.values_list("position", flat=True)) == list(range(1, 21))
    experiment.refresh_from_db()
    assert experiment.units_control + experiment.units_treatment == 20


@pytest.mark.django_db
@pytest.mark.parametrize("ahead", DAYS, ids=str)
def test_decisions_and_feedback_are_recorded_by_the_databases_clock(moved_clock: MovedClock, api, agent, ahead):  # noqa: F811
    client = api("decisions:write", "feedback:write")
    true = timezone.now()
    moved_clock.ahead = ahead
    made = client.post("/api/v1/decisions", body())
    assert made.status_code == 201
    assert client.post("/api/v1/feedback", verdict(Decision.objects.get().id)).status_code == 201
    moved_clock.ahead = dt.timedelta(0)
    moments = [Decision.objects.get().recorded_at, Feedback.objects.get().recorded_at]
    assert all(abs(moment - true) < dt.timedelta(seconds=30) for moment in moments)
