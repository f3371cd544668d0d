"""Which decisions a calculation finds due, in which windows nothing was heard, and what becomes of interrupted work."""

import contextlib
import datetime as dt
import itertools
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from decisions.models import Episode, Reward, RewardDue, RewardProgress
from decisions.models.tombstones import tombstone_name
from decisions.rewards import calculate, queueing
from decisions.rewards.calculate import Calculated, calculate_rewards, count_pending, plan_of
from decisions.rewards.components import Trace
from decisions.rewards.gathering import gather_facts
from decisions.rewards.specs import ComponentSetup, SpecContent, create_reward_spec, current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import DecisionFactory, EpisodeFactory, FeedbackFactory, StepFactory

pytestmark = pytest.mark.django_db
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def spec(agent):
    return current_reward_spec(agent)


@pytest.fixture
def with_window(agent, by):
    """Without a verdict for a day, a decision counts as ignored."""
    return create_reward_spec(
        by=by, agent=agent, content=SpecContent([ComponentSetup("verdict", window_days=1, missing=0.0)])
    )


def parts(decision):
    """The components of each version of the decision's reward."""
    return list(Reward.objects.filter(decision=decision).order_by("version").values_list("components", flat=True))


def stored_rewards():
    """Every reward but the moment at which it was calculated."""
    fields = ("decision", "version", "raw", "value", "components")
    return list(Reward.objects.order_by("decision", "version").values_list(*fields))


class TestWindows:
    MISSING = {"verdict": {"value": 0.0, "missing": True}}

    def test_missing_is_final_when_the_window_has_closed_and_not_before(self, with_window, judged):
        old, young = judged(minutes=25 * 60), judged(minutes=23 * 60)
        assert calculate_rewards(with_window) == Calculated(1, 0)
        assert (parts(old), parts(young)) == ([self.MISSING], [])

    def test_a_window_that_closes_after_the_last_search_makes_its_decisions_due(self, with_window, judged):
        decision = judged(minutes=25 * 60)
        searched = timezone.now() - 2 * HOUR  # the decision was 23 hours old
        RewardProgress.objects.create(spec=with_window, workspace=with_window.workspace, searched_until=searched)
        assert count_pending(with_window) == 1
        assert calculate_rewards(with_window).processed == 1
        assert parts(decision) == [self.MISSING]

    def test_late_feedback_still_counts(self, with_window, judged):
        decision = judged(minutes=25 * 60)
        calculate_rewards(with_window)
        FeedbackFactory(decision=decision, value="corrected")
        assert calculate_rewards(with_window).processed == 1
        assert parts(decision) == [self.MISSING, {"verdict": {"value": -0.5}}]

    def test_without_a_window_missing_waits_for_ever(self, spec, judged):
        judged(minutes=400 * 24 * 60)
        assert calculate_rewards(spec) == Calculated()


class TestInterruptedWork:
    def test_what_an_interrupted_calculation_left_is_calculated_by_the_next(self, spec, judged, monkeypatch):
        monkeypatch.setattr(calculate, "CHUNK", 2)
        for _ in range(5):
            judged("confirmed")
        left = iter([True, True, False])

        @contextlib.contextmanager
        def step():
            with transaction.atomic():
                yield
                if not next(left):
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            calculate_rewards(spec, step=step)
        assert (Reward.objects.count(), RewardDue.objects.count()) == (2, 3)
        assert calculate_rewards(spec) == Calculated(3, 0)
        assert calculate_rewards(spec) == Calculated()
        assert (Reward.objects.count(), RewardDue.objects.count()) == (5, 0)
        assert set(Reward.objects.values_list("version", "value")) == {(1, 0.75)}

    @pytest.mark.parametrize(
        "name, side, call",
        [
            ("mark_due", "before", 1),
            ("mark_due", "after", 1),
            ("_take", "after", 2),
            ("value_decisions", "before", 2),
            ("_write", "before", 1),
            ("_write", "before", 2),
            ("_write", "after", 1),
            ("_write", "after", 2),
        ],
    )
    def test_a_worker_that_dies_at_any_place_loses_its_chunk_alone(self, spec, judged, monkeypatch, name, side, call):
        monkeypatch.setattr(calculate, "CHUNK", 2)
        for verdict in ("confirmed", "corrected", "confirmed", "overridden", "ignored"):
            judged(verdict)
        with transaction.atomic():
            calculate_rewards(spec)
            undisturbed = stored_rewards()
            transaction.set_rollback(True)
        assert len(undisturbed) == 5 and not Reward.objects.exists()
        real, calls = getattr(calculate, name), itertools.count(1)

        def die(*given, **named):
            dies = next(calls) == call
            if dies and side == "before":
                raise KeyboardInterrupt
            found = real(*given, **named)
            if dies:
                raise KeyboardInterrupt
            return found

        with monkeypatch.context() as dying:
            dying.setattr(calculate, name, die)
            with pytest.raises(KeyboardInterrupt):
                calculate_rewards(spec)
        assert Reward.objects.count() == 2 * (call - 1)
        calculate_rewards(spec)
        assert stored_rewards() == undisturbed and not RewardDue.objects.exists()

    def test_free_workers_are_asked_to_help_where_much_is_due(self, spec, judged, monkeypatch):
        monkeypatch.setattr(queueing, "SHARE_FROM", 2)
        for _ in range(5):
            judged("confirmed")
        with transaction.atomic():
            calculate_rewards(spec, share=queueing.ask_for_help)
            helpers = list(Job.objects.filter(kind=queueing.HELP_CALCULATE))
        assert len(helpers) == 2
        assert {run_job(job.id) for job in helpers} == {"succeeded"}  # nothing is left for them
        assert Reward.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_several_workers_value_each_decision_once(agent, at_once, monkeypatch):
    monkeypatch.setattr(calculate, "CHUNK", 3)
    spec = current_reward_spec(agent)
    for _ in range(30):
        FeedbackFactory(decision=DecisionFactory(agent=agent))
    calculate.mark_due(spec, plan_of(spec))
    done = at_once(4, lambda: calculate.calculate_due(spec))
    assert sum(done, Calculated()) == Calculated(30, 0)
    assert Reward.objects.filter(version=1).count() == 30


class TestTraces:
    """Facts of what happened around a decision."""

    def gather(self, spec, *decisions):
        found = gather_facts(
            workspace_id=spec.workspace_id,
            agent_id=spec.agent_id,
            groups=frozenset({"trace"}),
            moments={one.id: None for one in decisions},
            now=timezone.now(),
        )
        return {one.decision: one.facts.trace for one in found}

    def test_of_an_episode_and_of_a_decision_alone(self, spec, agent):
        episode = EpisodeFactory(
            agent=agent, query="Book it", final_response="Done", tasks_created=3, tasks_completed=2, tokens_in=700
        )
        first, second = (DecisionFactory(agent=agent, episode=episode) for _ in range(2))
        alone = DecisionFactory(agent=agent, completion="print(1)")
        for success in (True, True, False, None):
            StepFactory(episode=episode, success=success)
        StepFactory(episode=None, workspace=agent.workspace, decision=second, kind="llm_call", tokens_in=5)
        StepFactory(episode=None, workspace=agent.workspace, decision=alone, kind="llm_call", tokens_out=9)
        StepFactory(episode=episode, kind="span")
        around = Trace("Book it", "Done", 3, 2, None, 700, 1, 4, 3, 2, 5)
        assert self.gather(spec, first, second, alone) == {
            first.id: around,
            second.id: around,
            alone.id: Trace("", "print(1)", None, None, None, 9, 1, 0, 0, 0, 1),
        }
        Episode.objects.filter(id=episode.id).update(external_id=tombstone_name(episode.id))
        assert self.gather(spec, first)[first.id] is None


@pytest.mark.django_db
def test_what_is_due_is_read_by_its_index_before_there_are_statistics_of_it(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = current_reward_spec(agent)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO decisions_rewarddue (workspace_id, spec_id, decision_id)"
            " SELECT %s, %s, gen_random_uuid() FROM generate_series(1, 2000)",
            [agent.workspace_id, spec.id],
        )
        monkeypatch.setattr(calculate, "_TAKE", f"EXPLAIN {calculate._TAKE}")
        plan = calculate._take(spec, calculate._START)
        assert plan and not [line for line in plan if "Sort" in line]
        cursor.execute("SHOW enable_sort")
        assert cursor.fetchone() == ("on",)
