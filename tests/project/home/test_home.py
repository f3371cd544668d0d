"""The home page's numbers against rows made for them: what waits where, what moved, who is needed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from decisions.labelling.labels import label_decision, withdraw_label
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import ComponentSetup, SpecContent, create_reward_spec, current_reward_spec
from project.pages.home import counts, needs
from project.pages.home.activity import TOLD
from project.pages.home.counts import Count, count_ledger
from project.pages.home.overview import read_home
from tests.project.home.home_world import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    at,
    backdate,
    decide,
    make_dead_job,
    make_experiment,
    make_failed_run,
    make_still_run,
    say,
    whats,
)
from tools.factories import (
    AgentFactory,
    AliasFactory,
    ApiKeyFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    EvaluationFactory,
    ExperimentFactory,
    ExposureFactory,
    FeedbackFactory,
    GateVerdictFactory,
    JobFactory,
    MembershipFactory,
    ModelVersionFactory,
    ObservationFactory,
    RewardFactory,
    RewardProgressFactory,
    TrainingRunFactory,
    UserFactory,
    VariantFactory,
)
from training.models import TrainingRun
from workspaces.access.actors import person
from workspaces.access.services import create_api_key, record_audit
from workspaces.models import Role


def test_an_empty_workspace_is_a_first_run_and_everything_is_idle(workspace: Any) -> None:
    home = read_home(workspace, NOW)
    assert home.first_run and not home.busy
    assert {station.state for station in home.stations} == {"idle"}
    assert [station.key for station in home.stations] == [
        "serve", "record", "feedback", "reward", "dataset", "train", "evaluate", "register", "experiment",
    ]  # fmt: skip
    assert home.stuck == () and home.activity == () and whats(home.needs) == ["No app is connected"]


def test_the_ledger_s_stations_count_this_workspace_and_this_day(agent: Any, other_workspace: Any) -> None:
    version = ModelVersionFactory(registered_model=agent.registered_model)
    AliasFactory(version=version)
    own = [decide(agent, NOW - number * HOUR) for number in (1, 2)]
    served = decide(agent, NOW - 3 * HOUR, policy_name=None, model_version=version)
    old = [decide(agent, NOW - number * DAY) for number in (1, 1, 3)]
    decide(AgentFactory(workspace=other_workspace), NOW - HOUR)
    for decision, moment in ((own[0], NOW - HOUR), (old[0], NOW - DAY), (old[1], NOW - HOUR)):
        say(decision, moment)
    say(decide(AgentFactory(workspace=other_workspace), NOW - HOUR), NOW - HOUR)
    home = read_home(agent.workspace, NOW)
    record, feedback = at(home, "record"), at(home, "feedback")
    assert (record.total, record.today) == (Count(6), Count(3))
    assert (feedback.total, feedback.today) == (Count(3), Count(2))
    assert (at(home, "serve").today, at(home, "serve").waiting) == (Count(1), Count(0))
    assert (feedback.waiting, feedback.waits, feedback.state) == (Count(3), "without feedback", "waiting")
    assert served.id and not home.first_run and not home.approximate


def test_an_agent_without_a_version_waits_for_one(agent: Any, other_workspace: Any) -> None:
    AgentFactory(workspace=other_workspace)
    serve = at(read_home(agent.workspace, NOW), "serve")
    assert (serve.total, serve.waiting, serve.waits, serve.state) == (Count(1), Count(1), "without a model", "waiting")


class TestFeedbackToReckon:
    def waiting(self, agent: Any) -> int:
        return count_ledger(agent.workspace, NOW).unread.value

    def test_what_was_recorded_after_the_last_search_waits(self, agent: Any) -> None:
        for number in (3, 2, 1):
            say(decide(agent, NOW - DAY), NOW - number * HOUR)
        other = AgentFactory(workspace=agent.workspace)
        RewardProgressFactory(spec__agent=other, searched_until=NOW)
        assert self.waiting(agent) == 3  # nothing of this agent was ever calculated
        RewardProgressFactory(spec=current_reward_spec(agent), searched_until=NOW - 2 * HOUR)
        assert self.waiting(agent) == 1

    def test_a_calculation_reads_it_all_and_a_new_spec_wants_it_again(self, agent: Any, by: Any) -> None:
        moment = timezone.now()
        FeedbackFactory(decision=DecisionFactory(agent=agent), recorded_at=moment)
        assert count_ledger(agent.workspace).unread == Count(1)
        assert calculate_rewards(current_reward_spec(agent)).processed == 1
        assert count_ledger(agent.workspace).unread == Count(0)
        create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("verdict", 2.0)]))
        assert count_ledger(agent.workspace).unread == Count(1)

    def test_the_look_is_bounded_and_says_so(self, agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        assert str(Count.up_to(5, 6)) == "5+" and str(Count.up_to(5, 5)) == "5"
        monkeypatch.setattr(counts, "LOOK", 2)
        monkeypatch.setattr(counts, "_UNREAD", counts._UNREAD.replace("LIMIT 2000", "LIMIT 2"))
        for _ in range(3):
            say(decide(agent, NOW - DAY), NOW - HOUR)
        assert count_ledger(agent.workspace, NOW).unread == Count(2, more=True)


def test_rewards_wait_for_the_agent_s_next_dataset(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for moment in (NOW - 5 * HOUR, NOW - HOUR):
        RewardFactory(decision=decide(agent, NOW - DAY), feedback_until=moment, computed_at=moment)
    RewardFactory(
        decision=decide(agent, NOW - DAY), value=None, raw=None, feedback_until=NOW - HOUR, computed_at=NOW - HOUR
    )
    home = read_home(agent.workspace, NOW)
    assert (at(home, "dataset").waiting, at(home, "reward").today) == (Count(2), Count(2))
    spec = current_reward_spec(agent)
    snapshot = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=spec)
    backdate(snapshot, NOW - 2 * HOUR)
    assert at(read_home(agent.workspace, NOW), "dataset").waiting == Count(1)
    monkeypatch.setattr(needs, "FEW", 1)
    [item] = [item for item in read_home(agent.workspace, NOW).needs if item.station == "dataset"]
    assert (item.what, item.action, item.role) == (
        "1 rewards since the newest dataset", "Train on new decisions", "admin",
    )  # fmt: skip
    backdate(snapshot, NOW)
    assert at(read_home(agent.workspace, NOW), "dataset").waiting == Count(0)
    assert "dataset" not in {item.station for item in read_home(agent.workspace, NOW).needs}
    backdate(DatasetSnapshotFactory(agent=agent, kind="labelled"), NOW)  # no snapshot of the ledger


def test_rewards_of_texts_wait_for_a_dataset_of_texts(agent: Any) -> None:
    RewardFactory(decision=decide(agent, NOW - DAY), feedback_until=NOW - HOUR, computed_at=NOW - HOUR)
    backdate(DatasetSnapshotFactory(agent=agent, kind="text"), NOW)  # imported, or drawn from an environment
    backdate(DatasetSnapshotFactory(agent=agent, kind="labelled"), NOW)
    assert at(read_home(agent.workspace, NOW), "dataset").waiting == Count(1)
    backdate(DatasetSnapshotFactory(agent=agent, kind="text", reward_spec=current_reward_spec(agent)), NOW)
    assert at(read_home(agent.workspace, NOW), "dataset").waiting == Count(0)


def test_runs_versions_and_experiments_wait_where_they_stand(agent: Any) -> None:
    model = agent.registered_model
    champion, untried, unmeasured = (ModelVersionFactory(registered_model=model) for _ in range(3))
    AliasFactory(version=champion)
    run = TrainingRunFactory(agent=agent)
    EvaluationFactory(run=run, version=untried, against=champion)
    GateVerdictFactory(version=untried, against=champion)
    home = read_home(agent.workspace, NOW)
    assert at(home, "train").waiting == Count(1)
    assert (at(home, "evaluate").waiting, at(home, "evaluate").total) == (Count(1), Count(1))
    assert (at(home, "register").waiting, at(home, "register").total) == (Count(1), Count(3))
    assert unmeasured.pk and at(home, "experiment").waiting == Count(0)
    experiment = backdate(ExperimentFactory(registered_model=model), NOW - MINUTE, "started_at")
    VariantFactory(experiment=experiment, arm="treatment", version=untried)
    home = read_home(agent.workspace, NOW)
    assert at(home, "register").waiting == Count(0)
    assert (at(home, "experiment").waiting, at(home, "experiment").state) == (Count(1), "moving")
    assert home.poll_seconds == 3  # the run


class TestMoving:
    @pytest.mark.parametrize("age, state, polls", [(5, "moving", 3), (600, "waiting", None)])
    def test_a_station_moves_while_its_last_row_is_fresh(
        self, agent: Any, age: int, state: str, polls: int | None
    ) -> None:
        moment = NOW - dt.timedelta(seconds=age)
        decide(agent, moment)
        say(decide(agent, moment), moment)
        home = read_home(agent.workspace, NOW)
        assert (at(home, "feedback").state, home.poll_seconds) == (state, polls)
        assert at(home, "record").state == ("moving" if polls else "idle")

    def test_an_experiment_alone_is_looked_at_slowly(self, agent: Any) -> None:
        backdate(ExperimentFactory(registered_model=agent.registered_model), NOW - MINUTE, "started_at")
        assert read_home(agent.workspace, NOW + 9 * MINUTE).poll_seconds == 15

    def test_a_job_under_way_is_shown_and_polled_and_another_workspace_s_is_not(
        self, workspace: Any, other_workspace: Any
    ) -> None:
        JobFactory(workspace=other_workspace, kind="secret.work", state="running", lease_until=NOW + HOUR)
        assert read_home(workspace, NOW).working == ()
        job = JobFactory(workspace=workspace, kind="project.demo_loop", state="running", lease_until=NOW + HOUR)
        home = read_home(workspace, NOW)
        assert (home.working, home.poll_seconds, home.first_run) == ((job,), 3, False)
        type(job).objects.filter(pk=job.pk).update(state="succeeded", lease_until=None, finished_at=NOW)
        home = read_home(workspace, NOW)
        assert ([one.state for one in home.working], home.poll_seconds) == (["succeeded"], None)
        assert read_home(workspace, NOW + 2 * DAY).working == ()


class TestNeedsAPerson:
    @pytest.fixture(autouse=True)
    def key(self, workspace: Any) -> Any:
        return ApiKeyFactory(workspace=workspace)

    def test_decisions_that_nobody_judged(self, agent: Any) -> None:
        say(decide(agent, NOW - HOUR), NOW)
        for number in range(4):
            decide(agent, NOW - number * MINUTE)
        [item] = read_home(agent.workspace, NOW).needs
        assert (item.what, item.role) == ("4 decisions to label", "labeller")
        assert item.url == reverse("pages:label", args=[agent.workspace.slug])

    def test_a_label_that_was_taken_back_waits_again(self, agent: Any, workspace: Any, labeller: Any) -> None:
        """Its verdict and the row that withdraws it stay in the ledger; other feedback on a decision still counts."""
        by = person(labeller, workspace, Role.LABELLER)
        undone, kept, said = (decide(agent, NOW - number * MINUTE) for number in range(3))
        say(said, NOW, metric="rating", value=4)
        for decision in (undone, kept, said):
            label_decision(by=by, decision=decision, verdict="confirmed")
        assert count_ledger(workspace, NOW).unanswered == 0
        for decision in (undone, said):
            withdraw_label(by=by, decision=decision)
        assert count_ledger(workspace, NOW).unanswered == 1
        home = read_home(workspace, NOW)
        assert whats(home.needs) == ["1 decision to label"]
        assert at(home, "feedback").waiting == Count(1)
        label_decision(by=by, decision=undone, verdict="corrected", corrected_action="health")
        assert count_ledger(workspace, NOW).unanswered == 0

    def test_a_version_that_passed_and_was_not_tried(self, agent: Any) -> None:
        champion, passed, failed = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(3))
        GateVerdictFactory(version=passed, against=champion, estimate=0.1, low=0.05, high=0.15)
        GateVerdictFactory(version=failed, against=champion, passed=False)
        [item] = read_home(agent.workspace, NOW).needs
        assert str(passed) in item.what and "+10.0 points" in item.why and str(passed.pk) in item.url
        assert "of accuracy on held-out rows" in item.why

    def test_a_version_that_passed_by_logged_decisions_says_so(self, agent: Any) -> None:
        champion, passed = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
        GateVerdictFactory(version=passed, against=champion, kind="off_policy", estimate=0.1, low=0.05, high=None)
        [item] = read_home(agent.workspace, NOW).needs
        assert item.why == "+10.0 points of reward by logged decisions; the lower bound is above 0."

    def test_the_newest_verdict_of_a_gate_counts(self, agent: Any) -> None:
        champion, version = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
        backdate(GateVerdictFactory(version=version, against=champion), NOW - HOUR)
        backdate(GateVerdictFactory(version=version, against=champion, passed=False), NOW)
        assert read_home(agent.workspace, NOW).needs == ()

    def test_an_experiment_that_is_decided_and_one_that_never_is(self, agent: Any) -> None:
        ExperimentFactory(
            registered_model=agent.registered_model, name="won", state="promoted", ended_at=NOW - HOUR, verdict="E⁺"
        )
        slow = make_experiment(agent, min_units_per_arm=10, min_seconds=60, units_control=40, units_treatment=41)
        ObservationFactory(exposure=ExposureFactory(phase=slow.phases.get()))
        found = read_home(agent.workspace, NOW).needs
        assert whats(found) == ["try is still inconclusive", "won ended: version promoted"]
        type(slow).objects.filter(pk=slow.pk).update(units_control=39)
        assert whats(read_home(agent.workspace, NOW).needs) == ["won ended: version promoted"]
        type(slow).objects.filter(pk=slow.pk).update(
            state="futile", ended_at=NOW, futility_e=20, smallest_effect=0.05, verdict="not better"
        )
        assert "try ended: no effect worth finding" in whats(read_home(agent.workspace, NOW).needs)
        told = [event.what for event in read_home(agent.workspace, NOW).activity]
        assert "try: stopped for futility" in told
        assert read_home(agent.workspace, NOW + 9 * DAY).needs == ()

    def test_a_key_and_one_time_passwords(self, workspace: Any, other_workspace: Any, key: Any) -> None:
        MembershipFactory(workspace=other_workspace, user=UserFactory(must_change_password=True))
        assert read_home(workspace, NOW).needs == ()
        MembershipFactory(workspace=workspace, user=UserFactory(name="Kim", must_change_password=True))
        assert whats(read_home(workspace, NOW).needs) == ["Kim still has a one-time password"]
        type(key).objects.filter(pk=key.pk).update(expires_at=NOW - HOUR)
        assert "No app is connected" in whats(read_home(workspace, NOW).needs)


def test_moved_today_tells_in_order_and_of_today_only(agent: Any, by: Any, other_workspace: Any) -> None:
    now = timezone.now()
    version = ModelVersionFactory(registered_model=agent.registered_model)
    record_audit(by=by, action="version.registered", target=f"model_version:{version.pk}", details={"name": "filer:1"})
    record_audit(by=by, action="reward_spec.created", target="reward_spec:1")
    record_audit(by=by, action="dataset.created", target="dataset:1", details={"rows": 4800})
    TrainingRunFactory(agent=agent, state="succeeded", produced_version=version, finished_at=now)
    make_failed_run(AgentFactory(workspace=other_workspace))
    ExperimentFactory(registered_model=agent.registered_model, name="won", state="promoted", ended_at=now)
    RewardFactory(decision=DecisionFactory(agent=agent), computed_at=now)
    home = read_home(agent.workspace, now + dt.timedelta(seconds=1))
    told = [event.what for event in home.activity]
    assert {"filer:1 registered", "Dataset of 4,800 decisions created", "won: promoted"} <= set(told)
    assert "1 reward calculated" in told
    assert any("succeeded: " in one for one in told) and not any("failed" in one for one in told)
    assert not any("reward_spec" in one for one in told)
    assert list(home.activity) == sorted(home.activity, key=lambda event: event.at, reverse=True)
    later = read_home(agent.workspace, now + DAY)
    assert later.activity == ()


def test_every_told_action_can_be_told(workspace: Any, by: Any) -> None:
    for action in TOLD:
        record_audit(by=by, action=action, target="model:1")
    create_api_key(by=by, name="app", scopes=["admin"])
    home = read_home(workspace, timezone.now())
    assert len(home.activity) == len(TOLD) + 1


def test_the_demo_s_end_is_told_for_a_day(workspace: Any) -> None:
    result = {"better": True, "summary": "demo:2 is now the champion."}
    JobFactory(workspace=workspace, kind="project.demo_loop", state="succeeded", finished_at=NOW - HOUR, result=result)
    home = read_home(workspace, NOW)
    assert home.demo == result and home.working == () and not home.first_run
    assert read_home(workspace, NOW + 2 * DAY).demo is None
    JobFactory(workspace=workspace, kind="project.demo_loop", state="dead", finished_at=NOW - MINUTE, error="no disk")
    failed = read_home(workspace, NOW)
    assert failed.demo is None and [job.error for job in failed.working] == ["no disk"]


class TestLargeTables:
    def test_totals_become_estimates_and_say_so(self, agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(60):
            decide(agent, NOW - HOUR)
        exact = read_home(agent.workspace, NOW)
        assert (at(exact, "record").total, exact.approximate) == (Count(60), False)
        monkeypatch.setattr(counts, "QUICK_ROWS", 50)
        monkeypatch.setattr(counts, "QUICK_BYTES", -1)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE decisions_decision")
        estimated = read_home(agent.workspace, NOW)
        total = at(estimated, "record").total
        assert total.approximate and estimated.approximate and 30 <= total.value <= 120
        assert str(Count(1_234_567, approximate=True)) == "≈ 1,200,000"

    def test_a_total_is_never_smaller_than_what_was_counted_of_it(
        self, agent: Any, other_workspace: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Until statistics are gathered again the planner expects next to nothing of a workspace that is new."""
        DecisionFactory.create_batch(50, agent__workspace=other_workspace)
        monkeypatch.setattr(counts, "QUICK_ROWS", 5)
        monkeypatch.setattr(counts, "QUICK_BYTES", -1)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE decisions_decision, decisions_feedback, decisions_reward")
        for _ in range(12):
            FeedbackFactory(decision=decide(agent, NOW - MINUTE), observed_at=NOW - MINUTE)
        home = read_home(agent.workspace, NOW)
        assert [str(at(home, name).total) for name in ("record", "feedback")] == ["12+", "12+"]
        assert Count(1_249, approximate=True).at_least(1_240) == Count(1_240, more=True)
        assert Count(1_249, approximate=True).at_least(1_100) == Count(1_249, approximate=True)

    def test_today_beyond_the_look_is_the_look_s_share(self, agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        version = ModelVersionFactory(registered_model=agent.registered_model)
        monkeypatch.setattr(counts, "LOOK", 4)
        monkeypatch.setattr(counts, "_NEWEST", counts._NEWEST.replace("LIMIT 2000", "LIMIT 4"))
        for number in range(8):
            by = {"policy_name": None, "model_version": version} if number % 2 else {}
            decide(agent, NOW - number * MINUTE, **by)
        found = count_ledger(agent.workspace, NOW)
        assert found.served_today == Count(4, approximate=True) and found.decisions_today == Count(8)
        home = read_home(agent.workspace, NOW)
        assert at(home, "feedback").waits == "of 4 without feedback"
        assert "4 of the newest 4 decisions to label" in whats(home.needs)

    def test_the_statements_are_as_many_whatever_there_is(
        self, agent: Any, django_assert_max_num_queries: Any, other_workspace: Any
    ) -> None:
        for number in range(12):
            version = ModelVersionFactory(registered_model=AgentFactory(workspace=agent.workspace).registered_model)
            AliasFactory(version=version)
            make_failed_run(agent)
            make_still_run(agent)
            make_dead_job(agent)
            say(decide(agent, NOW - number * HOUR), NOW)
        for _ in range(6):
            make_experiment(AgentFactory(workspace=agent.workspace))
        read_home(agent.workspace, NOW)
        with django_assert_max_num_queries(28):  # two of them of agents without a model
            home = read_home(agent.workspace, NOW)
        assert len(home.stuck) > 30 and TrainingRun.objects.count() == 24


def test_the_documentation_names_every_station(workspace: Any) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "home.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in text.split("## Stuck")[0].splitlines() if line.startswith("| ")]
    assert rows[1:] == [station.title for station in read_home(workspace, NOW).stations]
