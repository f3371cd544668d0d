"""Matured units: when their windows have passed, by what was known then, once, in order."""

import datetime as dt

import pytest
from django.utils import timezone

from decisions.rewards import maturing
from decisions.rewards.maturing import mature_outcomes
from decisions.rewards.specs import ComponentSetup, create_reward_spec
from models_registry.experiments import ExperimentPlan, Router, start_experiment
from models_registry.models import Exposure, Observation, Phase
from models_registry.promotion import stop_experiment
from tools.factories import AliasFactory, DecisionFactory, FeedbackFactory, ModelVersionFactory

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def minutes(count):
    return dt.timedelta(minutes=count)


@pytest.fixture
def experiment(agent, by):
    """Exposure window 10 minutes, attribution window 20 minutes."""
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    plan = ExperimentPlan(exposure_window_seconds=600, attribution_window_seconds=1200, missing="exclude")
    return start_experiment(by=by, treatment=ModelVersionFactory(registered_model=agent.registered_model), plan=plan)


@pytest.fixture
def expose(experiment, agent):
    """`expose("ann", 60)`: a unit exposed an hour ago, with one decision then; more by `decide`."""

    def make(unit, ago, *verdicts, after=1.0):
        route = Router(agent.registered_model).route(unit)
        exposure = Exposure.objects.create(
            workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=unit, arm=route.arm,
            served_arm=route.arm, assignment_probability=route.assignment_probability, version=route.version,
            exposed_at=NOW - minutes(ago),
        )  # fmt: skip
        for verdict in verdicts or [None]:
            decide(exposure, agent, ago, verdict, after=after)
        return exposure

    return make


def decide(exposure, agent, ago, verdict=None, after=1.0):
    decision = DecisionFactory(
        agent=agent, exposure=exposure, unit=exposure.unit, policy_name=None, model_version=exposure.version,
        observed_at=NOW - minutes(ago),
    )  # fmt: skip
    if verdict is not None:
        FeedbackFactory(decision=decision, value=verdict, observed_at=NOW - minutes(ago) + minutes(after))
    return decision


def observed():
    return {o.unit: o.outcome for o in Observation.objects.all()}


def test_a_unit_is_consumed_when_both_windows_have_passed(expose, experiment):
    expose("old", 31, "confirmed")
    expose("young", 29, "confirmed")
    (done,) = mature_outcomes(NOW)
    assert (done.experiment_id, done.units, done.action) == (experiment.id, 1, "continue")
    assert observed() == {"old": pytest.approx(0.75)}
    assert mature_outcomes(NOW)[0].units == 0
    assert mature_outcomes(NOW + minutes(2))[0].units == 1
    assert list(Observation.objects.values_list("position", "unit")) == [(1, "old"), (2, "young")]


def test_the_outcome_is_the_mean_reward_of_the_exposure_window(expose, agent):
    exposure = expose("ann", 60, "confirmed", "corrected", None)
    decide(exposure, agent, 49, "overridden")  # 11 minutes after the exposure
    mature_outcomes(NOW)
    assert observed() == {"ann": pytest.approx((0.75 + 0.375) / 2)}


def test_feedback_after_the_attribution_window_does_not_count_and_rewrites_nothing(expose, agent):
    expose("late", 60, "confirmed", after=31)
    in_time = expose("in time", 60, "confirmed", after=29)
    mature_outcomes(NOW)
    assert observed() == {"late": None, "in time": pytest.approx(0.75)}
    FeedbackFactory(decision=in_time.decisions.get(), value="overridden")
    mature_outcomes(NOW + minutes(60))
    assert observed() == {"late": None, "in time": pytest.approx(0.75)}


def test_a_later_unit_does_not_overtake_an_earlier_one(expose, experiment, agent):
    """A new phase with a shorter window: its units mature first, and wait."""
    expose("first phase", 25, "confirmed")
    experiment.phases.update(ended_at=NOW)
    Phase.objects.create(
        workspace=agent.workspace, experiment=experiment, number=2, treatment_share=0.5, attribution_window_seconds=0
    )
    expose("second phase", 15, "confirmed")
    mature_outcomes(NOW)
    assert observed() == {}
    mature_outcomes(NOW + minutes(10))
    assert list(Observation.objects.values_list("position", "unit")) == [(1, "first phase"), (2, "second phase")]


def test_units_of_an_earlier_phase_do_not_keep_later_ones_waiting(expose, experiment, agent, monkeypatch):
    monkeypatch.setattr(maturing, "BATCH", 2)
    for unit in ("ann", "bob"):
        expose(unit, 90, "confirmed")
    mature_outcomes(NOW)
    experiment.phases.update(ended_at=NOW)
    Phase.objects.create(
        workspace=agent.workspace, experiment=experiment, number=2, treatment_share=0.5, attribution_window_seconds=0
    )
    for unit in ("ann", "bob", "new"):
        expose(unit, 40, "corrected")
    assert mature_outcomes(NOW)[0].units == 1
    assert observed() == {"ann": pytest.approx(0.75), "bob": pytest.approx(0.75), "new": pytest.approx(0.375)}
    assert mature_outcomes(NOW)[0].units == 0


def test_a_failed_component_is_not_an_outcome(expose, agent, by):
    create_reward_spec(by=by, agent=agent, components=[ComponentSetup("verdict"), ComponentSetup("calibration")])
    exposure = expose("ann", 60)
    FeedbackFactory(
        decision=DecisionFactory(agent=agent, exposure=exposure, confidence=None, observed_at=NOW - minutes(59)),
        observed_at=NOW - minutes(58),
    )
    mature_outcomes(NOW)
    assert observed() == {"ann": None}


def test_a_stopped_experiment_consumes_nothing_more(expose, experiment, by):
    expose("ann", 60, "confirmed")
    stop_experiment(by=by, experiment=experiment)
    assert mature_outcomes(NOW) == []
    assert observed() == {}
