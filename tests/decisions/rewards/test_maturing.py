"""Matured units: when their windows have passed, by what was known then, once, in order."""

import datetime as dt
import math
from itertools import islice

import pytest
from django.utils import timezone

from decisions.rewards import maturing
from decisions.rewards.maturing import mature_outcomes
from decisions.rewards.specs import ComponentSetup, SpecContent, create_reward_spec
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import stop_experiment
from models_registry.experiments.services import start_experiment
from models_registry.models import Exposure, Observation, Phase
from models_registry.routing.router import Router
from tools.factories import AliasFactory, DecisionFactory, FailedRequestFactory, FeedbackFactory, ModelVersionFactory

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def minutes(count):
    return dt.timedelta(minutes=count)


@pytest.fixture
def experiment(agent, by):
    """Exposure window 10 minutes, attribution window 20 minutes."""
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    plan = ExperimentPlan(exposure_window_seconds=600, attribution_window_seconds=1200, missing="exclude")
    return start_experiment(
        by=by, treatment=ModelVersionFactory(registered_model=agent.registered_model), plan=plan, reason="a better one"
    )


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


class TestConditionedContrast:
    """Both arms' probabilities of a unit's actions, multiplied until the unit matures, and what they make of it."""

    def logged(self, exposure, agent, *pairs, ago=60):
        for own, other in pairs:
            decision = decide(exposure, agent, ago, "confirmed")
            type(decision).objects.filter(id=decision.id).update(propensity=own, other_arm_propensity=other)

    def bare(self, expose, unit):
        exposure = expose(unit, 60)
        exposure.decisions.all().delete()
        return exposure

    def units_of(self, agent, arm, count=2):
        """The first units that this experiment's salt, new with every run, assigns to `arm`."""
        router = Router(agent.registered_model)
        return list(islice((unit for n in range(200) if router.route(unit := f"unit {n}").arm == arm), count))

    def test_the_products_follow_the_arms_over_all_that_a_unit_met(self, expose, agent, experiment):
        for unit in self.units_of(agent, "control") + self.units_of(agent, "treatment"):
            exposure = self.bare(expose, unit)
            self.logged(exposure, agent, (0.5, 0.2), (0.4, 0.1))
            self.logged(exposure, agent, (0.9, 0.3), ago=45)  # after the exposure window, before it matures
            self.logged(exposure, agent, (0.9, 0.3), ago=20)  # after it matured
        mature_outcomes(NOW)
        own, other = math.log(0.5 * 0.4 * 0.9), math.log(0.2 * 0.1 * 0.3)
        for found in Observation.objects.select_related("exposure"):
            control, treatment = (own, other) if found.exposure.arm == "control" else (other, own)
            assert (found.log_l_control, found.log_l_treatment) == (pytest.approx(control), pytest.approx(treatment))
        experiment.refresh_from_db()
        assert experiment.units_conditioned == 4
        assert set(Observation.objects.values_list("exposure__arm", flat=True)) == {"control", "treatment"}

    def test_a_unit_whose_other_arm_was_not_asked_or_that_met_a_failure_keeps_the_plain_contrast(
        self, expose, agent, experiment
    ):
        partly, failed, never = (self.bare(expose, unit) for unit in ("partly", "failed", "never"))
        self.logged(partly, agent, (0.5, 0.2), (0.5, None))
        self.logged(failed, agent, (0.5, 0.2))
        FailedRequestFactory(exposure=failed, failed_at=NOW - minutes(59))
        self.logged(never, agent, (0.5, 0.0))
        mature_outcomes(NOW)
        found = dict(Observation.objects.values_list("unit", "log_l_control"))
        assert found["partly"] is None and found["failed"] is None and found["never"] < 0
        experiment.refresh_from_db()
        assert experiment.units_conditioned == 1

    def test_outcomes_are_measured_against_the_range_that_was_attainable_at_the_start(self, experiment, agent, by):
        assert (experiment.conditioned, experiment.rescaled) == (True, True)
        assert (experiment.outcome_low, experiment.outcome_high) == (pytest.approx(0.3), pytest.approx(0.75))
        create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("verdict", weight=2.0)]))
        experiment.refresh_from_db()
        assert experiment.outcome_high == pytest.approx(0.75)


def test_a_failed_component_is_not_an_outcome(expose, agent, by):
    create_reward_spec(
        by=by, agent=agent, content=SpecContent([ComponentSetup("verdict"), ComponentSetup("calibration")])
    )
    exposure = expose("ann", 60)
    FeedbackFactory(
        decision=DecisionFactory(agent=agent, exposure=exposure, observed_at=NOW - minutes(59)),
        value="liked",
        observed_at=NOW - minutes(58),
    )
    mature_outcomes(NOW)
    assert observed() == {"ann": None}


def test_a_stopped_experiment_consumes_nothing_more(expose, experiment, by):
    expose("ann", 60, "confirmed")
    stop_experiment(by=by, experiment=experiment, reason="enough")
    assert mature_outcomes(NOW) == []
    assert observed() == {}
