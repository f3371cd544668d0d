"""Whole old months leave the ledger, with an audit, and what refers to them stands or goes as documented."""

import datetime as dt
import io
import json

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from decisions import tasks
from decisions.models import Decision, Episode, Feedback, Label, QueueItem, Reservation, Reward, Skip, Step
from decisions.partitions import retention
from decisions.partitions.partitioning import PARTITIONED, ensure_partitions, month_start, partition_name
from jobs.models import Job
from models_registry.models import Observation
from tests.decisions.conftest import body
from tools.factories import (
    AgentVersionFactory,
    DatasetItemFactory,
    DecisionFactory,
    FeedbackFactory,
    LabelFactory,
    LabelQueueFactory,
    LabelSuggestionFactory,
    MeasurementDueFactory,
    ObservationFactory,
    QueueItemFactory,
    ReservationFactory,
    RewardDueFactory,
    RewardFactory,
    ShadowAnswerFactory,
    SkipFactory,
    StepFactory,
    uuid7_at,
)
from training.models import DatasetItem
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


def drop_old_months(**arguments):
    """Outside of tests the rows were committed long ago; here their deferred checks would still be pending."""
    connection.check_constraints()
    return retention.drop_old_months(**arguments)


def tables():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relname ~ '^decisions_.*_[0-9]{4}_[0-9]{2}$' AND relkind='r'"
        )
        return {name for (name,) in cursor.fetchall()}


def one_of_everything(agent, moment):
    """A decision of that moment with all that is said of it."""
    decision = DecisionFactory(id=uuid7_at(moment), agent=agent)
    RewardFactory(decision=decision)
    LabelFactory(decision=decision)  # with its feedback
    SkipFactory(decision=decision)
    LabelSuggestionFactory(decision=decision)
    ShadowAnswerFactory(decision=decision, shadow__agent=decision.agent)
    MeasurementDueFactory(decision=decision)
    RewardDueFactory(decision=decision)
    ReservationFactory(item=QueueItemFactory(queue=LabelQueueFactory(workspace=agent.workspace), decision=decision))
    StepFactory(id=uuid7_at(moment), decision=decision, episode=None, workspace=agent.workspace)
    return decision


def counts():
    return {
        model.__name__: model.objects.count()
        for model in (Decision, Feedback, Reward, Label, Skip, Step, QueueItem, Reservation)
    }


@pytest.fixture
def now():
    return timezone.now()


@pytest.fixture
def old(agent, now):
    """Decisions of 5, 4 and 1 months ago and of now; partitions for all but the oldest, which lies in the default."""
    AgentVersionFactory(agent=agent)
    ensure_partitions(month_start(now, -4), ahead=5)
    moments = {months: month_start(now, -months) + dt.timedelta(days=3) for months in (5, 4, 1)}
    made = {months: one_of_everything(agent, moment) for months, moment in moments.items()}
    made[0] = one_of_everything(agent, now)
    connection.check_constraints()
    return made


def test_old_months_go_with_everything_of_them_and_the_others_stay(old, now, workspace):
    dropped = drop_old_months(now=now, months=2)
    assert set(Decision.objects.values_list("id", flat=True)) == {old[1].id, old[0].id}
    assert counts() == dict.fromkeys(counts(), 2)
    gone = {partition_name(table, month_start(now, -4)) for table in PARTITIONED}
    assert not gone & tables()
    assert {partition_name(table, month_start(now, -1)) for table in PARTITIONED} <= tables()
    by_month = {one.month: one.rows for one in dropped}
    one_each = dict.fromkeys(PARTITIONED, 1)
    assert by_month[f"{month_start(now, -4):%Y-%m}"] == one_each
    assert by_month["earlier"] == one_each | dict.fromkeys(retention.WITHOUT_MONTH, 2)
    assert by_month[f"{month_start(now, -3):%Y-%m}"] == dict.fromkeys(PARTITIONED, 0)


def test_each_workspace_s_audit_says_what_went(old, now, workspace, other_workspace):
    theirs = DecisionFactory(id=uuid7_at(month_start(now, -4)), agent__workspace=other_workspace)
    drop_old_months(now=now, months=2)
    month = f"month:{month_start(now, -4):%Y-%m}"
    said = {entry.workspace: entry for entry in AuditEntry.objects.filter(action="decisions.dropped", target=month)}
    assert said[workspace].details == dict.fromkeys(PARTITIONED, 1)
    assert said[other_workspace].details == {"decisions_decision": 1}
    assert said[workspace].actor == "system"
    assert not Decision.objects.filter(id=theirs.id).exists()


def test_a_dry_run_says_the_same_and_changes_nothing(old, now):
    before, there = counts(), tables()
    planned = drop_old_months(now=now, months=2, dry_run=True)
    assert (counts(), tables()) == (before, there)
    assert not AuditEntry.objects.filter(action="decisions.dropped").exists()
    done = drop_old_months(now=now, months=2)
    assert planned == done
    assert drop_old_months(now=now, months=2) == []


def test_datasets_observations_episodes_and_what_has_no_month_stay(old, now, agent):
    item = DatasetItemFactory(decision=old[4])
    observation = ObservationFactory()
    then = month_start(now, -4)
    episode = Episode.objects.create(id=uuid7_at(then), workspace=agent.workspace, agent=agent, started_at=then)
    on_unit = FeedbackFactory(decision=None, unit="ann", workspace=agent.workspace)
    label = LabelFactory(decision=None, episode=episode, workspace=agent.workspace)
    queue = LabelQueueFactory(workspace=agent.workspace, subject="episode")
    place = ReservationFactory(item=QueueItemFactory(queue=queue, decision=None, episode=episode), label=label)
    drop_old_months(now=now, months=2)
    assert Reservation.objects.get(id=place.id).label == label and label.episode == episode
    assert DatasetItem.objects.get(id=item.id).decision_id == old[4].id
    assert Observation.objects.filter(id=observation.id).exists()
    assert Episode.objects.filter(id=episode.id).exists()
    assert Feedback.objects.filter(id=on_unit.id).exists()


def test_what_comes_late_is_taken_and_goes_with_the_next_run(old, now, api):
    drop_old_months(now=now, months=2)
    late = str(uuid7_at(month_start(now, -4) + dt.timedelta(days=1)))
    assert api().post("decisions", body(id=late)).status_code == 201
    assert drop_old_months(now=now, months=2)[0].rows["decisions_decision"] == 1
    assert not Decision.objects.filter(id=late).exists()


def test_the_ledger_still_takes_and_shows_decisions(old, now, api):
    drop_old_months(now=now, months=2)
    client = api()
    assert client.post("decisions", [body(), body()]).status_code == 201
    assert len(client.get("decisions").json()["results"]) == 4
    assert client.get(f"decisions/{old[4].id}").status_code == 404


class TestBeat:
    def test_nothing_is_dropped_by_default(self, settings):
        assert settings.KEEP_MONTHS == 0
        tasks.queue_retention()
        assert not Job.objects.filter(kind=tasks.DROP_OLD_MONTHS).exists()

    def test_one_job_a_day_where_the_setting_says_so(self, settings):
        settings.KEEP_MONTHS = 3
        tasks.queue_retention()
        tasks.queue_retention()
        assert Job.objects.filter(kind=tasks.DROP_OLD_MONTHS).count() == 1

    def test_the_job_drops(self, old, settings):
        settings.KEEP_MONTHS = 2

        class Context:
            payload = {}
            shown = 0

            def show_life(self):
                self.shown += 1

        context = Context()
        assert tasks.drop_old(context)["months"] == 3
        assert context.shown >= 3
        assert counts() == dict.fromkeys(counts(), 2)


class TestCommand:
    def run(self, *arguments):
        out = io.StringIO()
        call_command("drop_old_decisions", *arguments, stdout=out, stderr=io.StringIO())
        return out.getvalue()

    def test_it_tells_and_then_does(self, old, now):
        before = counts()
        planned = json.loads(self.run("--months", "2", "--dry-run", "--json"))
        assert (planned["dry_run"], counts()) == (True, before)
        assert "gone" in self.run("--months", "2")
        assert counts() == dict.fromkeys(counts(), 2)
        assert self.run("--months", "2") == "no month is that old\n"

    @pytest.mark.parametrize("arguments", [(), ("--months", "0"), ("--months", "-1"), ("--months", "99999")])
    def test_without_a_usable_number_of_months_nothing_goes(self, old, arguments):
        before = counts()
        with pytest.raises(SystemExit) as ended:
            self.run(*arguments)
        assert (ended.value.code, counts()) == (2, before)
