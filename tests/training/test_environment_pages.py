"""Pages of environments and of held-out episodes, from what a run left in its folder."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from tools.factories import DatasetSnapshotFactory, EvaluationFactory, TrainingRunFactory
from training.engine.environments.agents import ExpertAgent, RandomAgent
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.models import DatasetSnapshot

INTERVAL = {"mean": 0.25, "low": 0.1, "high": 0.4, "n": 4, "clusters": 4}


def at(name: str, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=["acme", *arguments])


@pytest.fixture
def run(agent: Any, settings: Any, store: Any) -> Any:
    """It solved all but one, whose environment failed; its base, which acted at random, one of these."""
    import asyncio

    import msgspec

    query = {"environment": "equations", "split": "heldout", "first": 0, "count": 4}
    heldout = DatasetSnapshotFactory(agent=agent, kind="tasks", rows=4, query=query)
    made = TrainingRunFactory(agent=agent, dataset=heldout, heldout=heldout, method="grpo")
    solved = INTERVAL | {"mean": 1.0, "high": 1.0}
    EvaluationFactory(
        run=made,
        dataset=heldout,
        scores={
            "base": {"accuracy": INTERVAL, "score": INTERVAL, "domains": {"math": INTERVAL}},
            "trained": {"accuracy": solved, "score": solved, "domains": {"math": solved}},
        },
        differences={"accuracy": INTERVAL, "score": INTERVAL, "domains": {"math": INTERVAL}},
    )
    equations = find_environment("equations")
    lines = []
    for worker, model in ((RandomAgent(1), "base"), (ExpertAgent(), "trained")):
        for task in draw_tasks(equations, 4, "heldout"):
            episode = asyncio.run(worker.run_episode(equations(), task))
            lines.append({"model": model, **msgspec.to_builtins(episode)})
    lines[-1] |= {"fault": "the grader failed", "success": False}
    lines[4]["trajectory"][0]["log_p"] = -0.6931471805599453
    attempt = settings.RUNS / str(made.id) / "attempts" / "1"
    attempt.mkdir(parents=True)
    (attempt / "heldout_episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {"run_id": "r", "method": "grpo", "attempt": 1, "episodes": "heldout_episodes.jsonl"}
    (attempt / "result.json").write_text(json.dumps(result))
    return made


def test_an_episode_is_found_from_its_run_and_shows_each_step_beside_the_base(
    run: Any, viewer: Any, page_client: Any
) -> None:
    client = page_client(viewer)
    page = client.get(at("run", run.id)).content.decode()
    assert "Held-out tasks solved" in page and "Solved by domain" in page and at("run-episodes", run.id) in page
    found = client.get(at("run-episodes", run.id))
    assert [task.place for task in found.context["tasks"]] == [1, 2, 3, 4]
    counts = {
        wanted: client.get(at("run-episodes", run.id), {"solved": wanted}).context["count"]
        for wanted in ("solved", "gained", "unsolved", "lost", "failed")
    }
    assert counts == {"solved": 3, "gained": 2, "unsolved": 0, "lost": 0, "failed": 1}
    assert client.get(at("run-episodes", run.id), {"domain": "office"}).context["count"] == 0
    first = client.get(at("run-episode", run.id, 1))
    (base, *_), (trained, episode, steps) = first.context["columns"]
    assert (base, trained, episode.success) == ("Base", "Trained", True)
    assert steps[0].step.action == "identify linear" and steps[0].probability == pytest.approx(0.5)
    assert len(steps[0].others) == len(steps[0].step.options) - 1
    text = first.content.decode()
    assert "50.0%" in text and "Score of its checkpoints" in text and at("run-episode", run.id, 2) in text
    assert "the grader failed" in client.get(at("run-episode", run.id, 4)).content.decode()
    assert client.get(at("run-episode", run.id, 5)).status_code == 404


def test_an_environment_says_what_was_solved_in_it(run: Any, viewer: Any, page_client: Any) -> None:
    client = page_client(viewer)
    (line,) = client.get(at("environments")).context["lines"]
    assert line["environment"].name == "equations"
    assert line["success"].best == (run.evaluation.version, run.evaluation.scores["trained"]["accuracy"])
    page = client.get(at("environment", "equations"))
    assert page.context["domain_chart"]["series"][1]["values"] == [100.0]
    text = page.content.decode()
    assert "identify linear" in text and str(run.evaluation.version) in text and at("run-episodes", run.id) in text
    assert client.get(at("environment", "algebra")).status_code == 404


def test_an_admin_draws_tasks_and_every_fault_is_told(agent: Any, admin: Any, page_client: Any) -> None:
    client = page_client(admin)
    given = {"agent": "filer", "name": "some", "tasks": 8, "held_out": 4, "demonstrations": 2, "wrong": 0, "first": 0}
    wrong = client.post(at("environment-draw", "equations"), given | {"tasks": 0, "wrong": 3})
    assert wrong.status_code == 400 and set(wrong.context["form"].errors) == {"tasks", "wrong"}
    assert not Job.objects.exists()
    sent = client.post(at("environment-draw", "equations"), given)
    assert sent["Location"] == at("dataset-making", Job.objects.get().id)


def test_a_dataset_of_tasks_shows_them_and_how_many_there_are(
    agent: Any, by: Any, store: Any, viewer: Any, page_client: Any
) -> None:
    from training.task_datasets import TaskQuestion, draw_datasets

    drawn = draw_datasets(by=by, agent=agent, name="few", question=TaskQuestion("equations", tasks=8, held_out=4))
    page = page_client(viewer).get(at("dataset", drawn.tasks.id))
    assert len(page.context["tasks"].first) == 8
    assert dict(page.context["tasks"].counts)["By template"] == [
        (name, 2) for name in ("both", "multiple", "shift", "words")
    ]
    text = page.content.decode()
    assert "equations-train-7" in text and at("dataset", drawn.held_out.id) in text and "Create a suite" not in text
    assert DatasetSnapshot.objects.count() == 2
