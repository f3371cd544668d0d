"""The guide of environments, followed as it is written from an empty workspace: a stranger's environment, its package,
its agent, a first model from demonstrations, and one that acts and learns, measured on tasks that neither has seen."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from decisions.models import Agent, Decision, Episode
from jobs.models import Job, JobState
from jobs.runner import run_job
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.models import TrainingRun
from training.runs import launcher

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/environments.md").read_text(encoding="utf-8")


def read_blocks(heading: str, language: str) -> list[str]:
    """The code below a heading of the guide."""
    part = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


@pytest.fixture
def corridor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The guide's package, on the path of this process and of engines as if it were installed: installing it would
    change the tests' own environment."""
    folder = tmp_path / "site"
    (folder / "corridor").mkdir(parents=True)
    (folder / "corridor/__init__.py").touch()
    (folder / "corridor/environment.py").write_text(read_blocks("Write one", "python")[0])
    table, entry = read_blocks("Write one", "toml")[0].split("\n", 1)
    assert table == '[project.entry-points."reckoner.environments"]'
    info = folder / "corridor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: corridor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[reckoner.environments]\n{entry.replace(chr(34), '')}")
    monkeypatch.syspath_prepend(str(folder))
    own = launcher.engine_environment()
    path = os.pathsep.join([own["PYTHONPATH"], str(folder)])
    monkeypatch.setattr(launcher, "engine_environment", lambda: own | {"PYTHONPATH": path})
    # A process of its own: those that the tests fork know no other path than theirs.
    monkeypatch.setattr(launcher, "ENGINE", (sys.executable, "-m", "training.engine"))
    yield folder
    for module in ("corridor.environment", "corridor"):
        sys.modules.pop(module, None)


def test_its_splits_share_no_corridor(corridor: Path) -> None:
    doors = find_environment("doors")
    seen = [{tuple(task.facts["doors"]) for task in draw_tasks(doors, 300, split)} for split in ("train", "heldout")]
    assert len(seen[0]) > 200 and len(seen[1]) > 100 and not seen[0] & seen[1]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_strangers_environment_is_trained_and_more_unseen_tasks_are_solved(
    corridor: Path, workspace: Any, admin: Any, page_client: Any, api: Any, store: Any
) -> None:
    assert not Agent.objects.exists()
    body = {
        "slug": "walker", "name": "Walker", "kind": "CUSTOM", "prompt_template": "{{ observation }}",
        "action_space": "choice", "epsilon": 0.1,
    }  # fmt: skip
    answer = api("admin").post("agents", body)
    assert answer.status_code == 201, answer.content
    install, draw, *runs = read_blocks("Train in it", "sh")[0].splitlines()
    assert install.startswith(".venv/bin/pip install ./corridor") and len(runs) == 4
    follow(draw)
    made = [train(start) for start in runs if " runs start " in start]
    assert [run.method for run in made] == ["pretrain", "grpo"]
    assert all(monitor.split()[2] == "monitor" for monitor in runs if " runs start " not in monitor)
    evaluation = made[1].evaluation
    scores, differences = evaluation.scores, evaluation.differences
    figures = {
        f"{which} {name}": round(scores[which][name]["mean"], 3)
        for name in ("accuracy", "greedy_success", "score")
        for which in ("base", "trained")
    }
    sys.stdout.write(f"\n{json.dumps(figures)} {differences['accuracy']}\n")
    assert evaluation.rows == 100
    for name in ("accuracy", "greedy_success"):
        assert scores["trained"][name]["mean"] > scores["base"][name]["mean"] + 0.1, figures
    assert differences["accuracy"]["low"] > 0  # the gate lets it into an experiment
    page = page_client(admin).get(reverse("pages:run", args=[workspace.slug, made[1].id])).content.decode()
    assert "Held-out tasks solved as it serves" in page and "Held-out tasks solved greedily" in page
    told = api("export:read").get(f"runs/{made[1].id}").json()["scores"]["scores"]["trained"]
    assert told["serving_success"] == scores["trained"]["accuracy"]
    assert told["greedy_success"] == scores["trained"]["greedy_success"]
    # What was measured is no live traffic.
    for job in Job.objects.filter(kind="training.record_episodes", state=JobState.QUEUED):
        run_job(job.id)
    assert Episode.objects.filter(session__startswith="held-out/").exists() and not Decision.objects.exists()
    assert api("export:read").get("agents/walker/action-quality?since=7d").json()["total"]["episodes"] == 0


def follow(line: str) -> str:
    """Runs a line of the guide as `manage.py` would, and returns what it printed."""
    words = shlex.split(line, comments=True)
    assert words[:2] == [".venv/bin/python", "manage.py"], line
    out = StringIO()
    call_command(*words[2:], stdout=out)
    return out.getvalue()


def train(start: str) -> TrainingRun:
    follow(start)
    run = TrainingRun.objects.latest("id")
    state = run_job(run.job_id)
    run.refresh_from_db()
    assert state is JobState.SUCCEEDED, run.error
    return TrainingRun.objects.select_related("evaluation", "produced_version").get(id=run.id)
