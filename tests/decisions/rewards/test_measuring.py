"""Costly components are measured by a job, and their measurements are facts."""

import pytest
from django.db import transaction
from django.utils import timezone

from decisions.models import Feedback, MeasurementDue, Reward, RewardSpec
from decisions.rewards import code_execution, measuring
from decisions.rewards.calculate import Calculated, calculate_rewards
from decisions.rewards.components import ComponentError
from decisions.rewards.measuring import MEASURE, Measurer, by_facts, measure_due
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
    monkeypatch.setattr(code_execution, "MEASURER", Measurer(1, frozenset({"trace"}), by_facts(measure)))


def test_the_blocks_of_a_response_run_and_their_share_is_the_value(spec, decision):
    try:
        ensure_checked()
    except SandboxMissing as missing:
        pytest.skip(f"no sandbox: {missing}")
    assert calculate_rewards(spec) == Calculated()
    assert run_job(Job.objects.get(kind=MEASURE).id) == "succeeded"
    [feedback] = Feedback.objects.all()
    assert feedback.source == "code"
    assert feedback.value.items() >= {"version": 1, "number": 1, "value": 0.5}.items()
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


def test_a_response_that_comes_later_is_measured_again_and_the_newest_counts(spec, decision, monkeypatch):
    episode = decision.episode
    said = {"": None, "first": 0.25, "second": 0.75}
    measured_by(monkeypatch, lambda facts: said[facts.trace.response])

    def respond(response):
        """The response comes; then everything is calculated, measured and calculated again."""
        type(episode).objects.filter(id=episode.id).update(final_response=response, changed_at=timezone.now())
        before = calculate_rewards(spec)
        for job in Job.objects.filter(kind=MEASURE, state=JobState.QUEUED):
            run_job(job.id)
        return before, calculate_rewards(spec)

    assert respond("") == (Calculated(), Calculated())
    assert Feedback.objects.count() == 0  # there is nothing to measure yet
    assert respond("first") == (Calculated(), Calculated(1, 0))
    # What was measured of another response is no longer known of this one.
    assert respond("second") == (Calculated(1, 0), Calculated(1, 0))
    assert [feedback.value["value"] for feedback in Feedback.objects.order_by("id")] == [0.25, 0.75]
    assert [reward.raw for reward in Reward.objects.order_by("version")] == [0.25, None, 0.75]
    assert respond("first")[1] == Calculated(1, 0)  # a third measurement, and not the first one
    assert [feedback.value["number"] for feedback in Feedback.objects.order_by("id")] == [1, 2, 3]
    assert respond("first") == (Calculated(), Calculated()) and Feedback.objects.count() == 3


def test_an_unmeasured_component_is_no_zero_among_those_that_share_its_weight(agent, by, decision, monkeypatch):
    measured_by(monkeypatch, lambda facts: 0.25)
    names = ("trace.syntax", COMPONENT)
    spec = {
        unknown: create_reward_spec(
            by=by,
            agent=agent,
            content=SpecContent([ComponentSetup(name) for name in names], low=0.0, high=2.0, unknown=unknown),
        )
        for unknown in ("left_out", "renormalised")
    }
    for one in spec.values():
        calculate_rewards(one)
    values = {unknown: Reward.objects.get(spec=one).value for unknown, one in spec.items()}
    assert values == {"left_out": 0.5, "renormalised": 1.0}  # its only Python block parses
    run_job(Job.objects.get(kind=MEASURE).id)
    for one in spec.values():
        calculate_rewards(one)
    assert {reward.value for reward in Reward.objects.filter(version=2)} == {(1.0 + 0.25) / 2.0}
