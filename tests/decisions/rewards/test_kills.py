"""kill -9 of a worker that calculates rewards or looks at an experiment, at named places: the effect of both is that
of work that nothing interrupted, once."""

import datetime as dt
import hashlib
import json

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from decisions.models import Reward
from decisions.rewards import calculate, maturing
from decisions.rewards.maturing import mature_outcomes
from decisions.tasks import CALCULATE_REWARDS, MATURE_OUTCOMES
from jobs.context import JobContext
from jobs.models import Job, JobState
from jobs.runner import run_job
from jobs.services import enqueue_job
from jobs.sweeper import sweep
from models_registry.experiments import looks
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, Exposure, Look, Observation
from models_registry.routing.router import Router
from tools.factories import AliasFactory, DecisionFactory, FeedbackFactory, ModelVersionFactory
from tools.promotion_kills import die_while

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
OWNERS = {
    "calculate": calculate,
    "maturing": maturing,
    "looks": looks,
    "context": JobContext,
    "database": BaseDatabaseWrapper,
}
SIDES = ("before", "after")
# With how often the worker has come by before: the first commit is the claim of the job.
REWARD_PLACES = [
    *(("calculate", "mark_due", side, 0) for side in SIDES),
    *(("calculate", "_take", side, 1) for side in SIDES),
    *(("calculate", "_write", side, 1) for side in SIDES),
    *(("context", "progress", side, 0) for side in SIDES),
    *(("context", "complete", side, 0) for side in SIDES),
    *(("database", "_commit", side, passing) for side in SIDES for passing in range(6)),
]
LOOK_PLACES = [
    *(("maturing", "consume_observations", side, 0) for side in SIDES),
    *(("looks", "_list_fresh", side, 0) for side in SIDES),
    *(("looks", "_settle", side, 0) for side in SIDES),
    *(("looks", "_act", side, 0) for side in SIDES),
    *(("context", "complete", side, 0) for side in SIDES),
    *(("database", "_commit", side, passing) for side in SIDES for passing in range(3)),
]


def finish_killed(job):
    """As the sweep does when the lease of the dead worker has run out, and another attempt to its end."""
    Job.objects.filter(id=job.id, state=JobState.RUNNING).update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    sweep()
    run_job(job.id)
    job.refresh_from_db()
    assert job.state == "succeeded", job.error


def decide_and_judge(agent):
    """Nine decisions with a verdict each, the same every time; in their order."""
    made = []
    for number in range(9):
        made.append(DecisionFactory(agent=agent))
        FeedbackFactory(decision=made[-1], value="confirmed" if number % 3 else "corrected")
    return made


def hash_rewards(decisions):
    """Of all their rows, less ids and moments."""
    rows = [
        list(
            Reward.objects.filter(decision=one).order_by("version").values_list("version", "value", "raw", "components")
        )
        for one in decisions
    ]
    assert all(rows)
    return hashlib.sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()


def test_rewards_are_those_of_an_uninterrupted_calculation(agent, monkeypatch):
    monkeypatch.setattr(calculate, "CHUNK", 4)
    payload = {"agent_id": str(agent.id)}
    decisions = decide_and_judge(agent)
    assert run_job(enqueue_job(kind=CALCULATE_REWARDS, payload=payload).id) is JobState.SUCCEEDED
    expected, wrong = hash_rewards(decisions), []
    for *place, passing in REWARD_PLACES:
        decisions = decide_and_judge(agent)
        job = enqueue_job(kind=CALCULATE_REWARDS, payload=payload)
        if not die_while(lambda job=job: run_job(job.id), tuple(place), OWNERS, passing=passing):
            wrong.append(f"{place}, {passing}: it did not come by")
            continue
        finish_killed(job)
        if hash_rewards(decisions) != expected:
            wrong.append(f"{place}, {passing}: other rewards")
    assert wrong == []
    assert Reward.objects.count() == 9 * (1 + len(REWARD_PLACES))


def test_a_look_that_was_killed_counts_each_unit_once(agent, by):
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    plan = ExperimentPlan(exposure_window_seconds=600, attribution_window_seconds=1200, missing="exclude")
    tried = ModelVersionFactory(registered_model=agent.registered_model)
    experiment = start_experiment(by=by, treatment=tried, plan=plan, reason="a better one")
    moment, wrong = timezone.now() - dt.timedelta(minutes=31), []
    for number, (*place, passing) in enumerate(LOOK_PLACES, start=1):
        for unit in (f"{number}-first", f"{number}-second"):
            route = Router(agent.registered_model).route(unit)
            exposure = Exposure.objects.create(
                workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=unit, arm=route.arm,
                served_arm=route.arm, assignment_probability=route.assignment_probability, version=route.version,
                exposed_at=moment,
            )  # fmt: skip
            decision = DecisionFactory(
                agent=agent, exposure=exposure, unit=unit, policy_name=None, model_version=route.version,
                observed_at=moment,
            )  # fmt: skip
            FeedbackFactory(decision=decision, value="confirmed", observed_at=moment + dt.timedelta(minutes=1))
        job = enqueue_job(kind=MATURE_OUTCOMES)
        if not die_while(lambda job=job: run_job(job.id), tuple(place), OWNERS, passing=passing):
            wrong.append(f"{place}, {passing}: it did not come by")
            continue
        finish_killed(job)
        positions = list(Observation.objects.order_by("position").values_list("position", flat=True))
        now = Experiment.objects.get(id=experiment.id)
        if positions != list(range(1, 2 * number + 1)) or now.units_control + now.units_treatment != 2 * number:
            wrong.append(
                f"{place}, {passing}: positions {positions}, {now.units_control} + {now.units_treatment} units"
            )
    assert wrong == []
    evidence = Experiment.objects.get(id=experiment.id)
    before = [getattr(evidence, name) for name in ("log_e_plus", "log_e_minus", "plain_log_e_plus")]
    mature_outcomes()
    evidence.refresh_from_db()
    assert before == [getattr(evidence, name) for name in ("log_e_plus", "log_e_minus", "plain_log_e_plus")]
    assert Look.objects.filter(experiment=experiment).count() >= 1
