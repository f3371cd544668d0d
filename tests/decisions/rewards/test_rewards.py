"""Rewards of the ledger: what the components say, versioned, and the same whatever order feedback arrives in."""

import datetime as dt
import itertools

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decisions.errors import InvalidRewardSpec
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from decisions.models import Feedback, Reward
from decisions.rewards.calculate import Calculated, calculate_rewards, plan_of, rewards_as_of
from decisions.rewards.components import ComponentError, Facts
from decisions.rewards.specs import ComponentSetup, SpecContent, create_reward_spec, current_reward_spec
from decisions.rewards.valuing import total
from decisions.tasks import queue_nightly_rewards
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import DecisionFactory, FeedbackFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
VERDICTS = ["confirmed", "corrected", "overridden", "ignored"]
IN_ONE_TRANSACTION = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def spec(agent):
    return current_reward_spec(agent)


def rewards(decision):
    return list(
        Reward.objects.filter(decision=decision).order_by("version").values_list("version", "value", "components")
    )


def value_of(spec, verdict, confidence):
    """What the components say of these facts."""
    return plan_of(spec).value(Facts(measures={"verdict": verdict} if verdict else {}, confidence=confidence))


@pytest.mark.slow
@IN_ONE_TRANSACTION
@given(
    cases=st.lists(
        st.tuples(st.sampled_from([*VERDICTS, "unheard of", None]), st.none() | st.floats(0, 1)),
        min_size=1,
        max_size=12,
    ),
    weights=st.tuples(*[st.just(0.0) | st.floats(1e-6, 8) | st.floats(-8, -1e-6)] * 2),
)
def test_what_is_stored_is_what_the_components_say(agent, by, cases, weights):
    """Gathered by SQL, through COPY and JSON, and back."""
    with transaction.atomic():
        spec = create_reward_spec(
            by=by,
            agent=agent,
            content=SpecContent(
                [ComponentSetup(n, w) for n, w in zip(("verdict", "calibration"), weights, strict=True)]
            ),
        )
        decisions = [(DecisionFactory(agent=agent, confidence=confidence), verdict) for verdict, confidence in cases]
        for decision, verdict in decisions:
            if verdict is not None:
                FeedbackFactory(decision=decision, value=verdict)
        calculated = calculate_rewards(spec)
        stored = {reward.decision_id: reward for reward in Reward.objects.filter(spec=spec)}
        for decision, verdict in decisions:
            expected = value_of(spec, verdict, decision.confidence)
            reward = stored.pop(decision.id, None)
            if not expected.components:
                assert reward is None
            else:
                found = (reward.components, reward.raw, reward.value)
                assert found == (expected.components, expected.raw, expected.value)
                calculated = Calculated(calculated.processed - 1, calculated.errors - (expected.value is None))
        assert (stored, calculated) == ({}, Calculated())
        transaction.set_rollback(True)


@pytest.mark.parametrize("weight", [1e-7, -1e7, float("nan"), float("inf")])
def test_a_weight_out_of_range_is_refused(agent, by, weight):
    with pytest.raises(InvalidRewardSpec) as refused:
        create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("verdict", weight)]))
    assert refused.value.faults[0].field == "components[0].weight"


def test_a_component_that_fails_stores_its_error_and_no_value(agent, by):
    spec = create_reward_spec(
        by=by, agent=agent, content=SpecContent([ComponentSetup("verdict"), ComponentSetup("calibration")])
    )
    decision = DecisionFactory(agent=agent, confidence=0.5)
    FeedbackFactory(decision=decision, value="liked")
    assert calculate_rewards(spec).processed == 1
    reward = Reward.objects.get()
    assert (reward.value, reward.raw) == (None, None)
    assert reward.components["calibration"] == {"value": -0.5}
    assert reward.components["verdict"]["error"].startswith("unknown verdict liked")


def test_a_decision_without_a_stated_confidence_has_its_verdict_s_reward(agent, by):
    spec = create_reward_spec(
        by=by, agent=agent, content=SpecContent([ComponentSetup("verdict"), ComponentSetup("calibration", 0.1)])
    )
    FeedbackFactory(decision=DecisionFactory(agent=agent, confidence=None), value="confirmed")
    calculated = calculate_rewards(spec)
    assert (calculated.processed, calculated.errors) == (1, 0)
    assert Reward.objects.get().raw == 1.0


# Feedback as it may arrive: (minutes on the client's clock, verdict), each 1 to 5 times, in any order.
EVENTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(VERDICTS)), min_size=1, max_size=5)


@pytest.mark.slow
@IN_ONE_TRANSACTION
@given(events=EVENTS, data=st.data())
def test_shuffled_and_repeated_feedback_earns_what_sorted_feedback_earns(agent, by, events, data):
    """F10: 1 to 5 deliveries each, any order, calculated in between or not, before the decision or after it."""
    start = timezone.now() - dt.timedelta(hours=1)
    given_ids = [uuid7() for _ in events]

    def item(decision_id, number, own_id):
        minutes, verdict = events[number]
        return FeedbackIn(
            id=own_id, metric="verdict", value=verdict, decision_id=decision_id,
            observed_at=start + dt.timedelta(minutes=minutes),
        )  # fmt: skip

    deliveries = data.draw(
        st.permutations([n for n in range(len(events)) for _ in range(data.draw(st.integers(1, 5)))]), label="arrival"
    )
    with transaction.atomic():
        spec = current_reward_spec(agent)
        late_decision = data.draw(st.booleans(), label="decision comes last")
        decision = None if late_decision else DecisionFactory(agent=agent)
        decision_id = uuid7() if late_decision else decision.id
        for number in deliveries:
            outcome = record_feedback(by=by, items=[(0, item(decision_id, number, given_ids[number]))])
            assert not outcome.errors
            if data.draw(st.booleans(), label="calculate now"):
                calculate_rewards(spec)
        if late_decision:
            DecisionFactory(id=decision_id, agent=agent)
        calculate_rewards(spec)
        last = max(zip(events, given_ids, strict=True), key=lambda pair: (pair[0][0], pair[1]))[0][1]
        value = value_of(spec, last, None).value
        versions = rewards(decision_id)
        assert versions[-1][1] == pytest.approx(value)
        assert [version for version, _, _ in versions] == list(range(1, len(versions) + 1))
        assert Feedback.objects.filter(decision_id=decision_id).count() == len(events)
        transaction.set_rollback(True)


def test_superseded_feedback_does_not_count(spec, by, judged):
    decision = judged("confirmed", "corrected", minutes=10)
    wrong = Feedback.objects.get(value="corrected")
    record_feedback(
        by=by, items=[(0, FeedbackIn(metric="note", value="a slip", decision_id=decision.id, supersedes=wrong.id))]
    )
    calculate_rewards(spec)
    assert rewards(decision)[-1][2] == {"verdict": {"value": 1.0}}


def test_late_feedback_makes_a_new_version_and_rewrites_nothing(spec, judged):
    decision = judged("corrected", minutes=10)
    assert calculate_rewards(spec).processed == 1
    before = Reward.objects.values().get()
    FeedbackFactory(decision=decision, value="confirmed")
    assert calculate_rewards(spec).processed == 1
    assert [version for version, _, _ in rewards(decision)] == [1, 2]
    assert Reward.objects.values().get(version=1) == before
    FeedbackFactory(decision=decision, value="confirmed")  # nothing new is known
    assert calculate_rewards(spec).processed == 0


def test_calculating_again_changes_nothing(spec, judged):
    for verdicts in itertools.product(VERDICTS, repeat=2):
        judged(*verdicts)
    assert calculate_rewards(spec).processed == 16
    assert [calculate_rewards(spec) for _ in range(3)] == [Calculated()] * 3
    assert Reward.objects.count() == 16


def test_a_decision_without_a_verdict_has_no_reward(spec, agent):
    FeedbackFactory(decision=DecisionFactory(agent=agent), metric="clicks", value=3)
    DecisionFactory(agent=agent)
    assert calculate_rewards(spec).processed == 0


def test_feedback_is_found_long_after_other_rewards_were_calculated(spec, agent, judged):
    """Its decision arrives last: the watermark of the others must not hide it."""
    long_ago = timezone.now() - dt.timedelta(hours=5)
    late = uuid7()
    FeedbackFactory(decision_id=late, decision=None, workspace=agent.workspace, observed_at=long_ago)
    judged("confirmed")
    assert calculate_rewards(spec).processed == 1
    DecisionFactory(id=late, agent=agent)
    assert calculate_rewards(spec).processed == 1
    assert rewards(late)[0][1] == pytest.approx(0.75)


def test_old_feedback_is_not_read_again(spec, judged):
    judged("confirmed", minutes=60)
    newest = judged("confirmed")
    calculate_rewards(spec)
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(feedback_until) FROM decisions_reward")
        assert cursor.fetchone()[0] == newest.feedback.get().recorded_at


def test_specs_are_calculated_apart(spec, agent, by, judged):
    decision = judged("confirmed")
    calculate_rewards(spec)
    second = create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("verdict", -1.0)]))
    assert calculate_rewards(second).processed == 1
    values = dict(Reward.objects.filter(decision=decision).values_list("spec__number", "value"))
    assert values == {1: pytest.approx(0.75), 2: pytest.approx(0.25)}


def test_another_workspace_s_feedback_and_another_agent_s_decisions_are_left_alone(spec, other_workspace, judged):
    decision = judged("confirmed")
    FeedbackFactory(decision=decision, workspace=other_workspace, value="overridden", observed_at=timezone.now())
    FeedbackFactory(decision=DecisionFactory(agent__workspace=spec.workspace), value="confirmed")
    assert calculate_rewards(spec).processed == 1
    assert rewards(decision)[0][2] == {"verdict": {"value": 1.0}}


class TestAsOf:
    def test_later_feedback_is_ignored(self, spec, judged):
        moment = timezone.now() - dt.timedelta(minutes=30)
        early, both, late = (
            judged("confirmed", minutes=60),
            judged("confirmed", minutes=60),
            judged("confirmed", minutes=10),
        )
        FeedbackFactory(decision=both, value="overridden")
        FeedbackFactory(decision=early, metric="note", value="seen late")
        known = rewards_as_of(spec, {d.id: moment for d in (early, both, late)})
        assert known == {early.id: pytest.approx(0.75), both.id: pytest.approx(0.75)}
        now = rewards_as_of(spec, {both.id: timezone.now()})
        assert now == {both.id: pytest.approx((-0.8 + 2) / 4)}

    def test_a_later_superseding_does_not_undo_what_was_known(self, spec, by, judged):
        decision = judged("confirmed", minutes=60)
        record_feedback(
            by=by,
            items=[
                (
                    0,
                    FeedbackIn(
                        metric="note", value="slip", decision_id=decision.id, supersedes=decision.feedback.get().id
                    ),
                )
            ],
        )
        assert rewards_as_of(spec, {decision.id: timezone.now() - dt.timedelta(minutes=30)}) == {
            decision.id: pytest.approx(0.75)
        }
        assert rewards_as_of(spec, {decision.id: timezone.now()}) == {}

    def test_it_asks_for_nothing_without_decisions(self, spec):
        assert rewards_as_of(spec, {}) == {}


class TestSpecs:
    @pytest.mark.parametrize(
        ("components", "faults"),
        [
            ([], {"components"}),
            (["nonsense", "verdict", "verdict"], {"components[0].name", "components[2].name"}),
            (["matches_answer"], {"components[0].name"}),
        ],
    )
    def test_a_spec_that_cannot_be_paid_is_refused_with_every_fault(self, agent, by, components, faults):
        with pytest.raises(InvalidRewardSpec) as refused:
            create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup(name) for name in components]))
        assert {fault.field for fault in refused.value.faults} == faults
        assert agent.reward_specs.count() == 1

    def test_the_hash_is_of_the_content(self, agent, by):
        first, again, other = (
            create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("verdict", weight)]))
            for weight in (2.0, 2.0, 3.0)
        )
        assert first.spec_hash == again.spec_hash != other.spec_hash
        assert [first.number, again.number, other.number] == [2, 3, 4]
        assert current_reward_spec(agent) == other


@pytest.mark.django_db(transaction=True)
def test_two_calculations_at_once_write_each_reward_once(agent, at_once):
    spec = current_reward_spec(agent)
    for _ in range(20):
        FeedbackFactory(decision=DecisionFactory(agent=agent))
    assert sum(done.processed for done in at_once(4, lambda: calculate_rewards(spec))) == 20
    assert Reward.objects.count() == 20


def test_the_nightly_job_calculates_every_agent_once_a_day(agent, judged):
    judged("confirmed")
    queue_nightly_rewards()
    queue_nightly_rewards()
    job = Job.objects.get()
    assert run_job(job.id) == "succeeded"
    job.refresh_from_db()
    assert job.result == {"agents": 1, "rewards": 1}
    assert Reward.objects.count() == 1


def test_a_sum_that_is_not_a_number_is_an_error_and_no_bound():
    with pytest.raises(ComponentError, match="not a number"):
        total({"verdict": float("nan")}, {"verdict": 1.0})
