"""Costly components are measured by a job, and their measurements are facts."""

import pytest
from django.db import transaction

from decisions.models import Feedback, MeasurementDue, Reward, RewardSpec
from decisions.rewards import code_execution, measuring
from decisions.rewards.calculate import Calculated, calculate_rewards
from decisions.rewards.components import ComponentError
from decisions.rewards.measuring import MEASURE, Measurer, measure_due
from decisions.rewards.spec_content import ComponentSetup, SpecContent
from decisions.rewards.specs import create_reward_spec
from jobs.models import Job, JobState
from jobs.runner import run_job
from sandbox.canary import ensure_checked
from sandbox.errors import SandboxMissing
from tools.factories import DecisionFactory, EpisodeFactory

pytestmark = pytest.mark.django_db
COMPONENT = "trace.code_execution"
BLOCKS = "Half of it runs:\n```python\nprint(1)\n```\n```sh\nfalse\n```\n"


@pytest.fixture
def spec(agent, by) -> RewardSpec:
    return create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup(COMPONENT)]))


@pytest.fixture
def decision(agent):
    return DecisionFactory(agent=agent, episode=EpisodeFactory(agent=agent, final_response=BLOCKS))


def measured_by(monkeypatch, measure):
    """The component is measured by this function in place of the sandbox."""
    monkeypatch.setattr(code_execution, "MEASURER", Measurer(1, frozenset({"trace"}), measure))


def test_the_blocks_of_a_response_run_and_their_share_is_the_value(spec, decision):
    try:
        ensure_checked()
    except SandboxMissing as missing:
        pytest.skip(f"no sandbox: {missing}")
    assert calculate_rewards(spec) == Calculated()
    assert run_job(Job.objects.get(kind=MEASURE).id) == "succeeded"
    [feedback] = Feedback.objects.all()
    assert (feedback.source, feedback.value) == ("code", {"version": 1, "value": 0.5})
    assert calculate_rewards(spec) == Calculated(1, 0)
    assert Reward.objects.get().components == {COMPONENT: {"value": 0.5}}
    assert (calculate_rewards(spec), Job.objects.filter(kind=MEASURE).count()) == (Calculated(), 1)


def test_a_measurement_that_fails_is_an_error_and_no_value(spec, decision, monkeypatch):
    def measure(facts):
        raise ComponentError("the response is cut off")

    measured_by(monkeypatch, measure)
    calculate_rewards(spec)
    run_job(Job.objects.get(kind=MEASURE).id)
    assert calculate_rewards(spec) == Calculated(1, 1)
    reward = Reward.objects.get()
    assert (reward.value, reward.components) == (None, {COMPONENT: {"error": "the response is cut off"}})


def test_without_a_sandbox_the_job_fails_and_the_decision_stays_due(spec, decision, monkeypatch):
    def measure(facts):
        raise SandboxMissing("install bubblewrap")

    measured_by(monkeypatch, measure)
    calculate_rewards(spec)
    job = Job.objects.get(kind=MEASURE)
    run_job(job.id)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED and "install bubblewrap" in job.error
    assert (MeasurementDue.objects.count(), Feedback.objects.count(), Reward.objects.count()) == (1, 0, 0)


def test_measuring_twice_writes_once(spec, decision, monkeypatch):
    measured_by(monkeypatch, lambda facts: 1.0)
    for _ in range(2):
        measuring.ask_to_measure(spec, {decision.id: [COMPONENT]})
        measure_due(COMPONENT, workspace_id=spec.workspace_id, step=transaction.atomic)
    assert (Feedback.objects.count(), MeasurementDue.objects.count()) == (1, 0)
