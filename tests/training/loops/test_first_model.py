"""The first model from people's verdicts: what suffices, what is missing, and the stages of its job.

Real runs of it: test_first_model_from_nothing.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from decisions.agents.services import kind_setup
from decisions.labelling.labels import label_decision
from decisions.models import Agent, Feedback
from decisions.queries.first_labels import LEAST, find_first_labels
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from jobs.services import request_cancel
from models_registry.models import Alias
from tools.factories import (
    OPTIONS,
    AgentVersionFactory,
    DecisionFactory,
    EvaluationFactory,
    FeedbackFactory,
    ModelVersionFactory,
)
from training.datasets.freezing import start_rebuild
from training.loops.first_model.services import KIND
from training.models import DatasetSnapshot, TrainingRun
from training.runs.defaults.values import find_defaults
from training.runs.reached import tell_reached
from workspaces.access.actors import person

INTERVAL = {"n": 20, "clusters": 20}


def decide(agent: Any, number: int, verdict: str | None = "confirmed", **fields: Any) -> Any:
    """The number-th decision, of a unit and a text of its own."""
    told = {"action": OPTIONS[number % len(OPTIONS)], "unit": f"unit {number}"} | fields
    decision = DecisionFactory(agent=agent, state={"text": f"{'abcdefghij'[number % 10] * 9} text {number} "}, **told)
    if verdict is not None:
        FeedbackFactory(decision=decision, value=verdict)
    return decision


@pytest.fixture
def judged(agent: Any) -> list[Any]:
    """Forty confirmed decisions, ten wrong ones and ten that nobody judged."""
    verdicts = ["confirmed"] * 40 + ["corrected"] * 10 + [None] * 10
    return [decide(agent, number, verdict) for number, verdict in enumerate(verdicts)]


def first(agent: Any) -> Any:
    return find_first_labels([agent])[agent.id]


def start(api: Any, agent: Any, **fields: str) -> Job:
    answer = api().post("runs/train", {"agent": agent.slug, **fields})
    assert answer.status_code == 202, answer.content
    return Job.objects.get(id=answer.json()["id"])


def end_run(run: Any, accuracy: float | None = None, gained: float | None = None, **fields: Any) -> Any:
    """The run as its supervisor would leave it."""
    version = ModelVersionFactory(registered_model=run.agent.registered_model, method=run.method)
    if not Alias.objects.filter(registered_model=run.agent.registered_model).exists():
        Alias.objects.create(
            workspace=run.workspace, registered_model=run.agent.registered_model, name="champion", version=version
        )
    told = {"state": "succeeded", "finished_at": timezone.now(), "produced_version": version} | fields
    TrainingRun.objects.filter(id=run.id).update(**told)
    if accuracy is not None:
        reached = {"mean": accuracy, "low": accuracy - 0.1, "high": accuracy + 0.1, **INTERVAL}
        difference = {"accuracy": {"mean": gained, "low": -1, "high": 1, **INTERVAL}} if gained is not None else {}
        EvaluationFactory(
            run=run,
            version=version,
            dataset=run.heldout,
            rows=run.heldout.rows,
            scores={"trained": {"accuracy": reached}},
            differences=difference,
            plain={"accuracy": reached | {"mean": 0.3}, "difference": reached, "rows": 30},
        )
    return version


@pytest.mark.django_db
class TestWhatSuffices:
    def test_confirmed_and_corrected_decisions_count_and_each_verdict_once(self, agent: Any, admin: Any) -> None:
        for number in range(4):
            decide(agent, number)
        wrong = decide(agent, 4, "corrected")
        FeedbackFactory(decision=wrong, value="corrected")  # said twice
        decide(agent, 5, "ignored")
        FeedbackFactory(decision=decide(agent, 6, None), value="confirmed", source="code")
        found = first(agent)
        assert (found.verdicts, found.labels) == (5, 4)
        assert found.missing.startswith(
            f"4 of 5 verdicts name the right action; a first model needs {LEAST}, so 26 more"
        )
        label_decision(
            by=person(admin, agent.workspace, "admin"), decision=wrong, verdict="corrected", corrected_action=OPTIONS[0]
        )
        assert (first(agent).verdicts, first(agent).labels, first(agent).actions[OPTIONS[0]]) == (5, 5, 3)

    def test_there_must_be_two_actions_to_tell_apart(self, agent: Any) -> None:
        for number in range(LEAST):
            decide(agent, number, action=OPTIONS[0])
        decide(agent, LEAST, action=OPTIONS[1])
        assert f"({OPTIONS[0]}: {LEAST}, {OPTIONS[1]}: 1)" in first(agent).missing
        for number in range(4):
            decide(agent, LEAST + 1 + number, action=OPTIONS[1])
        decide(agent, 99, action=OPTIONS[2])
        assert first(agent).ready and first(agent).rare == [OPTIONS[2]]

    def test_actions_that_no_option_is_any_more_teach_nothing(self, agent: Any) -> None:
        for number in range(LEAST):
            decide(agent, number, action=OPTIONS[number % 2] if number else "gone")
        assert (first(agent).verdicts, first(agent).labels) == (LEAST, LEAST - 1)

    def test_each_kind_of_agent_gets_the_button_or_the_reason(self, workspace: Any, agent: Any) -> None:
        for kind in ("FILER", "LIBRARIAN", "PRIORITIZER", "STORER", "RETRIEVER", "GUARDRAIL"):
            setup = kind_setup(kind)
            fields = {"action_space": setup.action_space, "action_schema": setup.action_schema}
            AgentVersionFactory(agent__workspace=workspace, agent__slug=kind, options=setup.options, **fields)
        for space in ("ranking", "choice", "text"):
            AgentVersionFactory(agent__workspace=workspace, agent__slug=space, action_space=space, options=None)
        found = {one.agent.slug: one for one in find_first_labels(list(Agent.objects.all())).values()}
        writes = {slug for slug, one in found.items() if one.writes}
        assert writes == {"LIBRARIAN", "STORER", "RETRIEVER", "text"}
        assert all("No verdict confirms a text" in found[slug].missing for slug in writes)
        assert all("so 30 more" in one.missing for one in found.values())
        assert {slug for slug, one in found.items() if one.fixed} == {"filer", "FILER", "GUARDRAIL"}

    def test_an_agent_s_verdicts_are_its_own(self, agent: Any, judged: Any, other_workspace: Any) -> None:
        other = AgentVersionFactory(agent__workspace=other_workspace).agent
        found = find_first_labels([agent, other])
        assert (found[agent.id].verdicts, found[other.id].verdicts) == (50, 0)


@pytest.mark.django_db
class TestWhereItIsOffered:
    def test_pages_show_the_button_to_admins_and_to_others_that_they_may_ask(
        self, agent: Any, judged: Any, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        def read(user: Any, name: str, *arguments: str) -> str:
            return (
                page_client(user)
                .get(reverse(f"pages:{name}", args=[agent.workspace.slug, *arguments]))
                .content.decode()
            )

        says = "Train the first model from 50 verdicts"
        for place in (("overview",), ("run-start",), ("train-new",), ("agent", agent.slug)):
            assert says in read(admin, *place), place
        for place in (("overview",), ("agent", agent.slug)):
            assert says not in read(viewer, *place) and "Ask an admin" in read(viewer, *place)
        Feedback.objects.all().delete()
        decide(agent, 90)
        for place in (("overview",), ("run-start",)):
            assert says not in read(admin, *place) and "so 29 more" in read(admin, *place), place

    def test_beside_an_agent_that_is_served_the_other_one_is_a_next_step(
        self, agent: Any, judged: Any, admin: Any, page_client: Any
    ) -> None:
        other = AgentVersionFactory(agent__workspace=agent.workspace).agent
        end = ModelVersionFactory(registered_model=other.registered_model)
        Alias.objects.create(
            workspace=agent.workspace, registered_model=other.registered_model, name="champion", version=end
        )
        text = page_client(admin).get(reverse("pages:overview", args=[agent.workspace.slug])).content.decode()
        assert f"{agent.name} has no model yet" in text and "Train the first model from 50 verdicts" in text

    def test_whoever_asks_an_agent_without_a_model_hears_what_to_do(self, agent: Any, judged: Any, api: Any) -> None:
        def ask() -> str:
            answer = api("route:read").post(f"agents/{agent.slug}/decide", {"state": {"text": "x"}})
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_champion")
            return str(answer.json()["error"]["message"])

        told = ask()
        assert all(
            part in told for part in ("50 verdicts", "POST /api/v1/runs/train", "manage.py runs train --agent filer")
        )
        Feedback.objects.all().delete()
        assert "so 30 more" in ask()

    def test_too_few_are_refused_and_nothing_starts(self, agent: Any, api: Any, capsys: Any) -> None:
        decide(agent, 1)
        answer = api().post("runs/train", {"agent": agent.slug})
        fault = answer.json()["error"]["fields"][0]
        assert answer.status_code == 400 and "1 of 1 verdicts name the right action" in fault["reason"]
        with pytest.raises(SystemExit, match="1"):
            call_command("runs", "train", "--agent", agent.slug)
        assert "so 29 more" in capsys.readouterr().err
        assert not Job.objects.exists()

    def test_a_base_that_is_not_allowed_is_refused(self, agent: Any, judged: Any, api: Any) -> None:
        answer = api().post("runs/train", {"agent": agent.slug, "base_model": "/etc"})
        assert answer.json()["error"]["fields"][0]["field"] == "base_model" and not Job.objects.exists()

    def test_the_command_starts_it_and_finds_it_again(self, agent: Any, judged: Any, api: Any, capsys: Any) -> None:
        call_command("runs", "train", "--agent", agent.slug, "--json")
        job = Job.objects.get(kind=KIND)
        assert str(job.id) in capsys.readouterr().out
        assert start(api, agent) == job and Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
class TestItsStages:
    @pytest.mark.slow
    def test_two_runs_on_the_same_held_out_decisions(self, agent: Any, judged: Any, api: Any, store: Any) -> None:
        job = start(api, agent, base_model="tiny")
        assert run_job(job.id) == "queued"
        base = TrainingRun.objects.get()
        assert (base.method, base.base_model, base.requested_by) == ("pretrain", "tiny", job.payload["requested_by"])
        assert base.dataset.rows + base.heldout.rows == 40 and base.heldout.rows >= 3
        version = end_run(base, 0.5)
        assert run_job(job.id) == "queued"
        last = TrainingRun.objects.latest("id")
        assert (last.method, last.base_version, last.replay, last.heldout) == (
            "posterior",
            version,
            base.dataset,
            base.heldout,
        )
        held = set(base.heldout.items.values_list("decision_id", flat=True))
        log = set(last.dataset.items.values_list("decision_id", flat=True))
        assert not held & log and log | held == {decision.id for decision in judged}
        assert last.dataset.query["apart_from"] == str(base.heldout_id)
        assert last.dataset.statistics["unjudged"] == 10
        trained = end_run(last, 0.6, 0.1)
        assert run_job(job.id) == "succeeded"
        job.refresh_from_db()
        assert job.result["run"] == str(last.id) and job.result["version"] == str(trained)
        assert job.message.startswith(f"{trained} is right on 60.0%") and "It serves: +10.0 points" in job.message
        assert Alias.objects.get(name="champion").version == trained
        found = api().get(f"datasets/freezings/{job.id}").json()
        assert (found["run"], found["dataset"]) == (str(last.id), str(base.dataset_id))

    def test_where_nobody_chose_a_base_every_kind_learns_and_the_best_serves(
        self, agent: Any, judged: Any, api: Any, store: Any
    ) -> None:
        job = start(api, agent)
        run_job(job.id)
        words, tiny = TrainingRun.objects.order_by("id")
        assert (words.method, words.base_model, tiny.method, tiny.base_model) == (
            "classifier", "words", "pretrain", "tiny",
        )  # fmt: skip
        assert (words.dataset, words.heldout) == (tiny.dataset, tiny.heldout)
        first, best = end_run(words, 0.4), end_run(tiny, 0.5)
        assert Alias.objects.get(name="champion").version == first
        run_job(job.id)
        assert Alias.objects.get(name="champion").version == best
        words, posterior = TrainingRun.objects.order_by("id")[2:]
        assert (words.method, words.base_version, words.replay) == ("classifier", best, tiny.dataset)
        assert (posterior.method, posterior.base_version) == ("posterior", best)
        winner = end_run(words, 0.7)
        end_run(posterior, None, state="failed", error="out of memory", produced_version=None)
        assert run_job(job.id) == "succeeded"
        job.refresh_from_db()
        assert job.result["version"] == str(winner) and "It serves: +20.0 points" in job.message
        assert "out of memory" in job.message
        assert Alias.objects.get(name="champion").version == winner

    def test_a_kind_that_fails_leaves_the_others(self, agent: Any, judged: Any, api: Any, store: Any) -> None:
        job = start(api, agent)
        run_job(job.id)
        words, tiny = TrainingRun.objects.order_by("id")
        made = end_run(words, 0.4)
        end_run(tiny, None, state="failed", error="out of memory", produced_version=None)
        run_job(job.id)
        (again,) = TrainingRun.objects.order_by("id")[2:]
        assert (again.method, again.base_version) == ("classifier", made)
        winner = end_run(again, 0.5)
        assert run_job(job.id) == "succeeded"
        assert Alias.objects.get(name="champion").version == winner

    @pytest.mark.parametrize(
        ("gained", "end", "says"),
        [
            (-0.1, {}, "filer:1 stays champion: −10.0 points"),
            (None, {"state": "failed", "error": "out of memory", "produced_version": None}, "out of memory"),
        ],
    )
    @pytest.mark.slow
    def test_the_base_goes_on_serving_where_the_second_run_is_worse_or_fails(
        self, gained: float | None, end: dict[str, Any], says: str, agent: Any, judged: Any, api: Any, store: Any
    ) -> None:
        job = start(api, agent, base_model="tiny")
        run_job(job.id)
        base = end_run(TrainingRun.objects.get(), 0.5)
        run_job(job.id)
        end_run(TrainingRun.objects.latest("id"), 0.4 if gained is not None else None, gained, **end)
        assert run_job(job.id) == "succeeded"
        job.refresh_from_db()
        assert says in job.message and Alias.objects.get(name="champion").version == base

    def test_where_all_belong_together_nothing_is_held_out_and_the_job_says_so(
        self, agent: Any, api: Any, store: Any
    ) -> None:
        for number in range(LEAST):
            decide(agent, number, unit="one person")
        job = start(api, agent, base_model="tiny")
        run_job(job.id)
        base = TrainingRun.objects.get()
        assert (base.heldout, base.dataset.rows) == (None, LEAST)
        end_run(base)
        run_job(job.id)
        end_run(TrainingRun.objects.latest("id"))
        assert run_job(job.id) == "succeeded"
        job.refresh_from_db()
        assert "Nothing measures it" in job.message and "held_out" not in job.result

    def test_to_cancel_it_cancels_its_run(self, agent: Any, judged: Any, api: Any, store: Any) -> None:
        job = start(api, agent, base_model="tiny")
        run_job(job.id)
        request_cancel(job_id=job.id)
        assert TrainingRun.objects.get().state == "cancelled"
        assert not Alias.objects.exists()

    @pytest.mark.slow
    def test_later_training_is_measured_on_what_was_held_out_and_never_learns_it(
        self, agent: Any, judged: Any, api: Any, by: Any, store: Any
    ) -> None:
        job = start(api, agent, base_model="tiny")
        run_job(job.id)
        base = TrainingRun.objects.get()
        end_run(base, 0.5)
        run_job(job.id)
        end_run(TrainingRun.objects.latest("id"), 0.6, 0.1)
        run_job(job.id)
        held = base.heldout.items.values_list("decision_id", flat=True)
        beside = decide(agent, 200, unit=next(one.unit for one in judged if one.id in set(held)))
        later = [decide(agent, 100 + number) for number in range(3)]
        calculate_rewards(current_reward_spec(agent))
        assert find_defaults(agent.workspace, [agent])[agent.id].kept_apart == base.heldout
        freezing = start(api, agent)
        assert freezing.kind == "training.freeze_dataset" and run_job(freezing.id) == "succeeded"
        run = TrainingRun.objects.latest("id")
        assert (run.heldout, run.replay) == (base.heldout, base.dataset)
        assert {item.decision_id for item in run.dataset.items.all()} == {one.id for one in later}
        assert run.dataset.statistics["left_out"]["apart"] == 1 and beside not in later
        # The same question again has the same answer.
        rebuilt = start_rebuild(by=by, dataset=run.dataset)
        assert run_job(rebuilt.id) == "succeeded"
        assert DatasetSnapshot.objects.latest("id").rows == 3
        answer = api().post("runs/train", {"agent": agent.slug, "base_model": "tiny"})
        assert answer.json()["error"]["fields"][0]["field"] == "base_model"


@pytest.mark.django_db(transaction=True)
def test_a_sentence_says_what_was_reached_beside_the_plainest_answers(
    agent: Any, judged: Any, api: Any, store: Any
) -> None:
    job = start(api, agent, base_model="tiny")
    run_job(job.id)
    run = TrainingRun.objects.select_related("dataset", "heldout", "replay").get()
    assert tell_reached(run) == ""
    end_run(run, 0.125)
    run.refresh_from_db()
    counts = run.dataset.statistics["actions"]
    action = max(counts, key=counts.get)
    always = run.heldout.statistics["actions"].get(action, 0) / run.heldout.rows
    said = tell_reached(TrainingRun.objects.get())
    assert f"is right on 12.5% [2.5%, 22.5%] of {run.heldout.rows} held-out rows" in said
    assert f"always “{action}” would be right on {100 * always:.1f}%, a plain classifier of words on 30.0%" in said
    assert ("no better than the most frequent action" in said) == (always >= 0.125)
