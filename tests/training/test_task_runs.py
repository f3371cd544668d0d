"""Tasks of an environment from the draw to a version: datasets, what is refused, and a run that acts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from models_registry.models import GateVerdict
from tests.training.environments.problem_files import problem_folder  # noqa: F401 - a fixture
from tools.factories import DatasetSnapshotFactory, ModelVersionFactory
from training.datasets.freezing import start_rebuild
from training.datasets.other_formats import stream_rows
from training.engine.environments.registry import known_environments
from training.environments.drawing import TaskQuestion, draw_datasets
from training.errors import InvalidRun
from training.evaluation.tasks import score_tasks
from training.models import DatasetSnapshot, Evaluation, TrainingRun
from training.runs.defaults.values import find_defaults
from training.runs.services import RunPlan, prepare_run, start_run
from training.supervision.model_card import write_card
from workspaces.errors import Conflict, InvalidInput

FEW = {"tasks": 12, "first": 0, "held_out": 8, "demonstrations": 40}


@pytest.fixture
def drawn(agent: Any, by: Any, store: Any) -> Any:
    return draw_datasets(by=by, agent=agent, name="equations", question=TaskQuestion("equations", **FEW))


class TestDrawing:
    def test_a_job_draws_tasks_those_to_measure_on_and_demonstrations(self, agent: Any, api: Any, store: Any) -> None:
        body = {"agent": agent.slug, "name": "first steps", **FEW}
        answer = api("admin").post("/api/v1/environments/equations/datasets", body)
        assert answer.status_code == 202 and answer.json()["state"] == "queued"
        run_job(Job.objects.get().id)
        told = api("export:read").get(f"/api/v1/datasets/freezings/{answer.json()['id']}").json()
        tasks, held_out, shown = (
            DatasetSnapshot.objects.get(pk=told[name]) for name in ("dataset", "held_out", "demonstrations")
        )
        assert (tasks.kind, tasks.rows, held_out.kind, held_out.rows) == ("tasks", 12, "tasks", 8)
        assert tasks.query == {
            "agent": "filer", "environment": "equations", "split": "train", "first": 0, "count": 12,
        }  # fmt: skip
        assert tasks.statistics["templates"] == {"both": 3, "multiple": 3, "shift": 3, "words": 3}
        assert tasks.statistics["levels"] == {"1": 6, "2": 3, "3": 3}
        assert held_out.statistics["held_out_of"] == str(tasks.id)
        assert (shown.kind, shown.query["first"], shown.query["count"]) == ("labelled", 12, 40)
        assert shown.has_answers and shown.name == "first steps (demonstrations)"
        rows = (artifact_path(tasks.artifact.digest) / "rows.jsonl").read_text().splitlines()
        assert json.loads(rows[11])["id"] == "equations-train-11"

    def test_every_fault_is_told_and_nothing_is_made(self, agent: Any, api: Any) -> None:
        body = {"agent": agent.slug, "name": "x", "tasks": 0, "first": -1, "held_out": 60_000, "wrong": 2}
        answer = api("admin").post("/api/v1/environments/algebra/datasets", body)
        assert answer.status_code == 400
        told = {fault["field"]: fault for fault in answer.json()["error"]["fields"]}
        assert set(told) == {"environment", "tasks", "first", "held_out", "wrong"}
        assert told["environment"]["expected"] == ", ".join(known_environments())
        asked = {"agent": agent.slug, "name": "x"}
        answer = api("admin").post("/api/v1/environments/office-unseen/datasets", asked)
        assert "has no tasks to learn from" in answer.json()["error"]["fields"][0]["reason"]
        assert not Job.objects.exists()

    def test_the_command_draws_the_same(self, agent: Any, store: Any) -> None:
        said = io.StringIO()
        asked = ("equations", "--agent", "filer", "--tasks", "4", "--held-out", "2", "--json")
        call_command("draw_tasks", *asked, stdout=said)
        told = json.loads(said.getvalue())
        assert told.keys() == {"dataset", "held_out", "rows"} and DatasetSnapshot.objects.count() == 2
        refused = io.StringIO()
        with pytest.raises(SystemExit) as ended:
            call_command("draw_tasks", "algebra", "--agent", "filer", "--tasks", "0", stderr=refused)
        assert ended.value.code == 2
        assert [line.split(":")[0] for line in refused.getvalue().splitlines()] == ["environment", "--tasks"]
        assert DatasetSnapshot.objects.count() == 2

    def test_word_problems_of_a_file_are_drawn_and_no_more_than_it_has(
        self,
        agent: Any,
        store: Any,
        problem_folder: Any,  # noqa: F811
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked = ("gsm8k", "--agent", "filer", "--tasks", "30", "--held-out", "20", "--demonstrations", "10", "--json")
        out = io.StringIO()
        call_command("draw_tasks", *asked, stdout=out)
        told = json.loads(out.getvalue())
        tasks, shown = (DatasetSnapshot.objects.get(id=told[name]) for name in ("dataset", "demonstrations"))
        assert (tasks.rows, tasks.environment, shown.kind) == (30, "gsm8k", "labelled") and shown.rows > 20
        for change, says in ((("--tasks", "31"), "--tasks: tasks and demonstrations up to number 41"),
                             (("--held-out", "21"), "--held-out: 21 are asked for, and there are 20")):  # fmt: skip
            with pytest.raises(SystemExit):
                call_command("draw_tasks", *asked, *change, stderr=(refused := io.StringIO()))
            assert says in refused.getvalue()
        monkeypatch.delenv("RECKONER_WORD_PROBLEMS")
        with pytest.raises(SystemExit):
            call_command("draw_tasks", *asked, stderr=(refused := io.StringIO()))
        assert "environment: RECKONER_WORD_PROBLEMS is not set" in refused.getvalue()
        assert DatasetSnapshot.objects.count() == 3

    def test_what_reads_decisions_refuses_them(self, drawn: Any, by: Any) -> None:
        with pytest.raises(Conflict, match="drawn from an environment"):
            start_rebuild(by=by, dataset=drawn.tasks)
        with pytest.raises(InvalidInput, match="in this format"):
            stream_rows(drawn.tasks, "kto")
        assert len(list(stream_rows(drawn.tasks, "rows"))) == 12


class TestPlans:
    def test_the_defaults_start_a_run_that_acts_and_first_one_that_imitates(
        self, drawn: Any, agent: Any, by: Any
    ) -> None:
        first = find_defaults(by.workspace, [agent])[agent.id].plan()
        assert first is not None and (first.method, first.dataset, first.heldout) == (
            "pretrain", drawn.demonstrations, drawn.held_out,
        )  # fmt: skip
        base = ModelVersionFactory(registered_model=agent.registered_model)
        then = find_defaults(by.workspace, [agent])[agent.id].plan()
        assert then is not None and (then.method, then.dataset, then.heldout, then.base_version) == (
            "grpo", drawn.tasks, drawn.held_out, base,
        )  # fmt: skip
        longest = drawn.tasks.statistics["longest_observation"]
        assert then.settings["max_prompt_tokens"] >= longest > 60
        assert first.settings["max_prompt_tokens"] == then.settings["max_prompt_tokens"]

    def test_bad_plans_are_refused_before_anything_starts(self, drawn: Any, agent: Any, by: Any) -> None:
        query = {"environment": "algebra", "split": "heldout", "first": 0, "count": 4}
        known = {
            "tasks": drawn.tasks,
            "held out": drawn.held_out,
            "labelled": DatasetSnapshotFactory(agent=agent),
            "algebra": DatasetSnapshotFactory(agent=agent, kind="tasks", query=query),
        }
        base = ModelVersionFactory(registered_model=agent.registered_model)
        reward = {"reward": [{"name": "matches_answer"}]}
        for method, dataset, heldout, settings, field, reason in (
            ("grpo", "tasks", "labelled", {}, "heldout", "has labelled rows"),
            ("grpo", "tasks", "algebra", {}, "heldout", "environment 'algebra' cannot be used here"),
            (
                "grpo",
                "tasks",
                "algebra",
                {},
                "heldout",
                "its tasks are of algebra, and the rows to learn from",
            ),
            ("grpo", "tasks", "tasks", {}, "heldout", "has tasks that the run learns from"),
            ("grpo", "held out", "held out", {}, "dataset", "its tasks are held out, to measure on"),
            ("grpo", "algebra", "algebra", {}, "dataset", "environment 'algebra' cannot be used here"),
            ("ppo", "tasks", "held out", {}, "dataset", "ppo cannot learn from tasks rows"),
            ("grpo", "tasks", "held out", reward, "settings.reward", "the environment gives the reward"),
            ("sft", "labelled", "held out", {}, "heldout", "the rows to learn from are neither"),
        ):
            plan = RunPlan(method, known[dataset], base_version=base, heldout=known[heldout], settings=settings)
            with pytest.raises(InvalidRun) as refused:
                start_run(by=by, agent=agent, plan=plan)
            assert any(one.field == field and reason in one.reason for one in refused.value.faults), reason
        assert not TrainingRun.objects.exists() and not Job.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_run_acts_on_tasks_and_its_version_says_what_it_solves(
    base_version: Any, drawn: Any, agent: Any, by: Any
) -> None:
    online = {"steps": 2, "prompts_per_step": 3, "group": 4, "gamma": 0.9, "curriculum": {"order": "uncertain"}}
    settings = {"online": online, "max_prompt_tokens": 96, "threads": 1, "evaluate": {"free_rows": 0}}
    plan = RunPlan("grpo", drawn.tasks, base_version=base_version, heldout=drawn.held_out, settings=settings)
    prepared = prepare_run(agent, plan).estimate
    assert prepared is not None and prepared.work > 0
    run = start_run(by=by, agent=agent, plan=plan)
    assert run_job(run.job_id) is JobState.SUCCEEDED
    run.refresh_from_db()
    assert {"reward", "solved", "score", "steps_taken", "faults"} <= set(run.run_metrics.values_list("name", flat=True))
    evaluation = Evaluation.objects.get(run=run)
    solved = evaluation.scores["trained"]["accuracy"]
    assert (evaluation.rows, solved["n"], solved["clusters"]) == (8, 8, 4)  # a cluster a template
    gain = evaluation.differences["accuracy"]
    verdict = GateVerdict.objects.get(version=run.produced_version, kind="held_out")
    assert (verdict.estimate, verdict.against) == (gain["mean"], base_version)
    assert run.produced_version is not None
    card = {name: value for section in write_card(run.produced_version) for name, value in section.facts}
    assert card["Environment"] == "equations" and card["Rows"] == "8 held-out tasks acted on"
    for measure in ("Held-out tasks solved as it serves", "Held-out tasks solved greedily"):
        assert {measure, f"{measure}, before"} <= card.keys()
    assert run.produced_version.acting_sha256 == run.produced_version.artifact.meta["weights_sha256"]


def test_held_out_tasks_are_paired_by_template_and_by_domain_and_faults_are_left_out(tmp_path: Path) -> None:
    told = [("1", "a", "hr", 0, 1), ("2", "a", "hr", 0, 1), ("3", "b", "hr", 0, 0), ("4", "c", "qa", 1, 1)]
    lines = [
        {
            "id": task,
            "group": group,
            "model": model,
            "domain": domain,
            "correct": bool(value),
            "score": value / 2,
            "greedy_correct": model == "trained" or task == "1",
        }
        for task, group, domain, *values in told
        for model, value in zip(("base", "trained"), values, strict=True)
    ]
    lines.append(lines[0] | {"id": "5"})  # the trained model's episode failed
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    scored = score_tasks(path)
    assert scored.rows == 4
    solved, gain = scored.scores["trained"]["accuracy"], scored.differences["accuracy"]
    assert (solved["mean"], solved["clusters"], gain["mean"]) == (0.75, 3, 0.5)
    assert scored.differences["score"]["mean"] == 0.25
    greedy = [scored.scores[which]["greedy_success"]["mean"] for which in ("base", "trained")]
    assert (*greedy, scored.differences["greedy_success"]["mean"]) == (0.25, 1.0, 0.75)
    assert {name: one["mean"] for name, one in scored.differences["domains"].items()} == {
        "hr": pytest.approx(2 / 3), "qa": 0.0,
    }  # fmt: skip
    path.write_text(json.dumps(lines[0]) + "\n" + json.dumps(lines[3]) + "\n")
    with pytest.raises(ValueError, match="no held-out task"):
        score_tasks(path)
