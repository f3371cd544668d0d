"""What the database itself refuses, whoever writes."""

import datetime as dt

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from decisions.models import Decision, Feedback, Reward, Step
from decisions.partitions.partitioning import PARTITIONED, ensure_partitions, month_start, partition_name
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    EpisodeFactory,
    FeedbackFactory,
    LabelFactory,
    ModelVersionFactory,
    RewardFactory,
    RewardSpecFactory,
    StepFactory,
    uuid7_at,
)
from workspaces.storage.ids import uuid7_bound

pytestmark = pytest.mark.django_db

IMPOSSIBLE = [
    (DecisionFactory, {"propensity": 0.0}),
    (DecisionFactory, {"propensity": 1.0000001}),
    (DecisionFactory, {"propensity": float("nan")}),
    (DecisionFactory, {"confidence": -0.1}),
    (DecisionFactory, {"confidence": 1.1}),
    (DecisionFactory, {"policy_name": None}),
    (DecisionFactory, {"temperature": 0.0}),
    (DecisionFactory, {"epsilon": 1.5}),
    (DecisionFactory, {"step_number": -1}),
    (AgentFactory, {"kind": "ORACLE"}),
    (AgentVersionFactory, {"temperature": 0.0}),
    (AgentVersionFactory, {"epsilon": -0.1}),
    (AgentVersionFactory, {"exploration_budget": 0}),
    (AgentVersionFactory, {"exploration_budget": 1001}),
    (AgentVersionFactory, {"action_space": "dance"}),
    (RewardSpecFactory, {"low": 1.0, "high": 1.0}),
    (RewardSpecFactory, {"clamp": 0.0}),
    (RewardFactory, {"value": 1.1}),
    (RewardFactory, {"value": -0.1}),
    (RewardFactory, {"version": 0}),
    (FeedbackFactory, {"unit": "two targets"}),
    (FeedbackFactory, {"source": "oracle"}),
    (LabelFactory, {"verdict": "liked"}),
    (StepFactory, {"kind": "daydream"}),
    (StepFactory, {"confidence": 1.1}),
    (StepFactory, {"duration_ms": -1.0}),
    (StepFactory, {"error": "it broke", "success": True}),
    (StepFactory, {"error": "it broke", "success": None}),
    (EpisodeFactory, {"tasks_failed": -1}),
]


@pytest.mark.parametrize(("factory", "fields"), IMPOSSIBLE, ids=lambda value: getattr(value, "__name__", str(value)))
def test_an_impossible_row_is_refused(factory, fields):
    with pytest.raises(IntegrityError), transaction.atomic():
        factory(**fields)


def test_a_decision_has_one_policy():
    version = ModelVersionFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        DecisionFactory(model_version=version)
    assert DecisionFactory(model_version=version, policy_name=None).pk


def test_a_step_belongs_to_an_episode_or_a_decision(workspace):
    with pytest.raises(IntegrityError), transaction.atomic():
        StepFactory(episode=None, workspace=workspace)
    assert StepFactory(episode=None, workspace=workspace, decision=DecisionFactory(agent__workspace=workspace)).pk


def test_feedback_has_a_target(workspace):
    with pytest.raises(IntegrityError), transaction.atomic():
        FeedbackFactory(decision=None, workspace=workspace)


@pytest.mark.parametrize(
    ("factory", "again"),
    [
        (AgentFactory, ("workspace", "slug")),
        (AgentVersionFactory, ("agent", "number")),
        (RewardSpecFactory, ("agent", "number")),
        (EpisodeFactory, ("agent", "external_id")),
        (FeedbackFactory, ("id", "decision")),
        (RewardFactory, ("decision", "spec", "version")),
        (DecisionFactory, ("id", "agent")),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_unique_is_there_once(factory, again):
    first = factory()
    with pytest.raises(IntegrityError), transaction.atomic():
        factory._meta.model.objects.bulk_create(
            [factory.build(**{name: getattr(first, name) for name in again}, **rest(factory, first, again))]
        )


def rest(factory, first, again):
    """The other references of a second row, saved already: only the unique part may be what is refused."""
    names = [f.name for f in factory._meta.model._meta.concrete_fields if f.is_relation and f.name not in again]
    return {name: getattr(first, name) for name in names}


@pytest.mark.parametrize("factory", [AgentVersionFactory, RewardSpecFactory, FeedbackFactory, RewardFactory])
def test_what_was_written_for_ever_cannot_be_changed(factory):
    row = factory()
    column = {"AgentVersionFactory": "temperature", "RewardSpecFactory": "clamp"}.get(factory.__name__)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f'UPDATE "{row._meta.db_table}" SET {column or "workspace_id"} = {column or "workspace_id"}')


class TestPartitions:
    def lies_in(self, model, key, value):
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT DISTINCT tableoid::regclass::text FROM "{model._meta.db_table}" WHERE "{key}" = %s', [value]
            )
            return [name for (name,) in cursor.fetchall()]

    def test_a_decision_and_what_belongs_to_it_lie_in_its_month(self):
        now = timezone.now()
        decision = DecisionFactory()
        FeedbackFactory(decision=decision, observed_at=now - dt.timedelta(days=90))  # its own time does not matter
        RewardFactory(decision=decision)
        for model, key in ((Decision, "id"), (Feedback, "decision_id"), (Reward, "decision_id")):
            assert self.lies_in(model, key, decision.id) == [partition_name(model._meta.db_table, month_start(now))]

    def test_the_first_and_the_last_moment_of_a_month_lie_in_it(self):
        start = month_start(timezone.now())
        end = month_start(timezone.now(), 1)
        for moment, month in ((start, start), (end - dt.timedelta(milliseconds=1), start), (end, end)):
            decision = DecisionFactory(id=uuid7_at(moment))
            assert self.lies_in(Decision, "id", decision.id) == [partition_name("decisions_decision", month)]

    def test_what_no_month_holds_is_kept_in_the_default(self, workspace):
        old = DecisionFactory(id=uuid7_at(dt.datetime(2020, 5, 1, tzinfo=dt.UTC)))
        assert self.lies_in(Decision, "id", old.id) == ["decisions_decision_default"]
        feedback = FeedbackFactory(decision=None, workspace=workspace, unit="ann")
        assert self.lies_in(Feedback, "id", feedback.id) == ["decisions_feedback_default"]

    def test_a_step_lies_in_the_month_of_its_own_id(self):
        now = timezone.now()
        step = StepFactory(decision=DecisionFactory(id=uuid7_at(dt.datetime(2020, 5, 1, tzinfo=dt.UTC))))
        assert self.lies_in(Step, "id", step.id) == [partition_name("decisions_step", month_start(now))]

    def test_months_are_made_once_and_ahead_of_time(self):
        later = month_start(timezone.now(), 14)
        made = ensure_partitions(later)
        assert sorted(made) == sorted(
            partition_name(table, month_start(later, months)) for table in PARTITIONED for months in range(3)
        )
        assert ensure_partitions(later) == []
        assert len(ensure_partitions(later, ahead=3)) == len(PARTITIONED)
        decision = DecisionFactory(id=uuid7_at(later + dt.timedelta(days=3)))
        assert self.lies_in(Decision, "id", decision.id) == [partition_name("decisions_decision", later)]

    def test_a_month_with_rows_in_the_default_is_left_there(self):
        later = month_start(timezone.now(), 20)
        decision = DecisionFactory(id=uuid7_at(later))
        made = ensure_partitions(later, ahead=0)
        assert partition_name("decisions_decision", later) not in made
        assert len(made) == len(PARTITIONED) - 1
        assert self.lies_in(Decision, "id", decision.id) == ["decisions_decision_default"]

    def test_december_is_followed_by_january(self):
        assert month_start(dt.datetime(2026, 12, 31, 23, 59, tzinfo=dt.UTC), 1) == dt.datetime(
            2027, 1, 1, tzinfo=dt.UTC
        )
        assert month_start(dt.datetime(2026, 11, 5, tzinfo=dt.UTC), 14) == dt.datetime(2028, 1, 1, tzinfo=dt.UTC)

    def test_a_query_for_a_range_of_ids_reads_one_month_only(self):
        with connection.cursor() as cursor:
            start, end = month_start(timezone.now()), month_start(timezone.now(), 1)
            cursor.execute(
                "EXPLAIN SELECT * FROM decisions_decision WHERE id >= %s AND id < %s",
                [uuid7_bound(start), uuid7_bound(end)],
            )
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert partition_name("decisions_decision", start) in plan
        assert "default" not in plan
