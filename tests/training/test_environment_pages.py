"""Pages of environments and of held-out episodes, from what a run left in its folder."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from decisions.models import Decision, Episode, Feedback
from jobs.context import JobContext
from jobs.models import Job
from jobs.runner import claim_job
from jobs.services import enqueue_job
from tests.task_world import ACTED, make_acted_run
from tools.factories import AgentVersionFactory, ModelVersionFactory
from training.environments.drawing import TaskQuestion, draw_datasets
from training.environments.recording import KIND, record_held_out_episodes
from training.models import DatasetSnapshot


def at(name: str, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=["acme", *arguments])


@pytest.fixture
def run(agent: Any, settings: Any, store: Any) -> Any:
    return make_acted_run(agent, settings.RUNS)


def test_an_episode_is_found_from_its_run_and_shows_each_step_beside_the_base(
    run: Any, viewer: Any, page_client: Any
) -> None:
    client = page_client(viewer)
    page = client.get(at("run", run.id)).content.decode()
    assert "Held-out tasks solved" in page and "solved by domain" in page and at("run-episodes", run.id) in page
    found = client.get(at("run-episodes", run.id))
    assert [task.place for task in found.context["tasks"]] == [1, 2, 3, 4]
    counts = {
        wanted: client.get(at("run-episodes", run.id), {"solved": wanted}).context["count"]
        for wanted in ("solved", "gained", "unsolved", "lost", "failed")
    }
    assert counts == {"solved": 3, "gained": 2, "unsolved": 0, "lost": 0, "failed": 1}
    assert client.get(at("run-episodes", run.id), {"domain": "school"}).context["count"] == 2
    first = client.get(at("run-episode", run.id, 1))
    (base, *_), (trained, episode, steps, _) = first.context["columns"]
    assert (base, trained, episode.success) == ("Base", "Trained", True)
    assert steps[0].step.action == "identify linear" and steps[0].probability == pytest.approx(0.5)
    assert len(steps[0].others) == len(steps[0].step.options) - 1
    text = first.content.decode()
    assert "50.0%" in text and "Score of its checkpoints" in text and at("run-episode", run.id, 2) in text
    assert "the grader failed" in client.get(at("run-episode", run.id, 4)).content.decode()
    assert client.get(at("run-episode", run.id, 5)).status_code == 404


def test_episodes_are_shown_by_policy_and_their_weights_are_those_of_the_version(
    run: Any, viewer: Any, page_client: Any, api: Any
) -> None:
    version = ModelVersionFactory(registered_model=run.agent.registered_model)
    version.artifact.meta |= {"acting_sha256": ACTED}
    version.artifact.save()
    run.produced_version, run.state, run.progress = version, "succeeded", 1.0
    run.started_at = run.finished_at = run.created_at
    run.save()
    client, export = page_client(viewer), api("export:read")
    path = at("run-episodes", run.id)
    assert client.get(path, {"policy": "greedy", "solved": "failed"}).context["count"] == 0
    assert client.get(path, {"policy": "greedy", "solved": "solved"}).context["count"] == 2
    listed = client.get(path, {"policy": "greedy"})
    first = at("run-episode", run.id, 1) + "?policy=greedy"
    assert first in listed.content.decode() and 'value="greedy" selected' in listed.content.decode()
    page = client.get(first)
    assert [column[-1] for column in page.context["columns"]] == [None, version]
    assert f'of <a href="{at("version", version.id)}">' in page.content.decode()
    assert at("run-episode", run.id, 2) + "?policy=greedy" in page.content.decode()
    assert ACTED in client.get(at("version", version.id)).content.decode()
    assert export.get(f"versions/{version}").json()["acting_sha256"] == ACTED
    text = client.get(at("run", run.id)).content.decode()
    assert "Held-out tasks solved as it serves" in text and "Held-out tasks solved greedily" in text
    told = export.get(f"runs/{run.id}").json()["scores"]
    for which in ("base", "trained"):
        scores = told["scores"][which]
        assert scores["serving_success"] == scores["accuracy"]
    # Three tasks without a fault: of the first two both were solved greedily.
    assert told["scores"]["trained"]["serving_success"]["mean"] == 1.0
    assert told["scores"]["trained"]["greedy_success"]["mean"] == pytest.approx(2 / 3)
    assert told["differences"]["greedy_success"]["mean"] == 0.0
    assert "Solved greedily" in client.get(at("environment", "equations")).content.decode()


def test_held_out_episodes_stand_in_the_ledger_and_in_no_list_that_did_not_ask_for_them(
    run: Any, viewer: Any, page_client: Any, api: Any
) -> None:
    AgentVersionFactory(agent=run.agent)
    job = enqueue_job(kind=KIND, workspace=run.workspace, payload={"run": str(run.id)})
    for _ in range(2):  # a second delivery writes nothing again
        record_held_out_episodes(JobContext(claim_job(job.id) or Job.objects.get(id=job.id)))
    assert Episode.objects.count() == 7  # one failed
    assert not Decision.objects.exists()
    one = Episode.objects.get(external_id__endswith="trained/equations-heldout-0")
    assert (one.session, one.tasks_completed, one.tasks_failed) == (f"held-out/{run.id}", 1, 0)
    first = one.steps.get(number=1)
    assert (first.name, first.confidence, first.result["reward"]) == ("identify linear", pytest.approx(0.5), 1.5)
    assert first.arguments["options"].count("identify linear") == 1
    assert set(Feedback.objects.filter(episode_id=one.id).values_list("metric", "source")) == {
        ("score", "code"),
        ("reward", "code"),
    }
    client = page_client(viewer)
    assert client.get(at("episodes")).context["rows"] == []
    assert len(client.get(at("episodes"), {"session": one.session}).context["rows"]) == 7
    export = api("export:read")
    assert export.get("episodes").json()["results"] == []
    assert len(export.get(f"episodes?session={one.session}").json()["results"]) == 7
    assert "identify linear" in client.get(at("episode", one.id)).content.decode()
    assert reverse("pages:episodes", args=["acme"]) in client.get(at("run-episodes", run.id)).content.decode()


def test_an_environment_says_what_was_solved_in_it(run: Any, viewer: Any, page_client: Any) -> None:
    client = page_client(viewer)
    lines = {line["environment"].name: line for line in client.get(at("environments")).context["lines"]}
    line = lines["equations"]
    assert line["success"].best == (run.evaluation.version, run.evaluation.scores["trained"]["accuracy"])
    page = client.get(at("environment", "equations"))
    assert page.context["domain_chart"]["x"]["names"] == ["math", "school"]
    assert page.context["domain_chart"]["series"][1]["values"] == [100.0, 100.0]
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
    drawn = draw_datasets(by=by, agent=agent, name="few", question=TaskQuestion("equations", tasks=8, held_out=4))
    page = page_client(viewer).get(at("dataset", drawn.tasks.id))
    assert len(page.context["tasks"].first) == 8
    assert dict(page.context["tasks"].counts)["By template"] == [
        (name, 2) for name in ("both", "multiple", "shift", "words")
    ]
    text = page.content.decode()
    assert "equations-train-7" in text and at("dataset", drawn.held_out.id) in text and "Create a suite" not in text
    assert DatasetSnapshot.objects.count() == 2
