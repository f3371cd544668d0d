"""docs/walkthrough.md, performed: one decision through the whole loop, by the interfaces that the document names.

Real PostgreSQL, a real engine process for every run, a real model server process; jobs are run by `run_job`, as a
worker does after a hint. The model is tiny and the text made up, so that it takes seconds.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.training.engine.engine_world import OPTIONS, labelled
from tools.model_server import running_model_server

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "walkthrough.md"
STEP_HEADING = re.compile(r"^## \d+\. (.+)$", re.MULTILINE)
PLACE = re.compile(r"`((?:[\w-]+/)+[\w-]+\.py)(?:::(\w+))?`")

TINY = {
    "max_prompt_tokens": 32,
    "threads": 1,
    "optimiser": {"learning_rate": 3e-3, "epochs": 10, "batch_size": 32},
    "evaluate": {"free_rows": 0},
}
ASKED_AT_ONCE = 200


@pytest.fixture
def model_server(store: Path, settings: Any) -> Iterator[str]:
    """A model server over this test's store, and the client pointed at it; its address."""
    from models_registry.backends.outbound import close_clients

    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        yield address
        close_clients()


class Walk:
    """The steps in order; each leaves on `self` what the next one needs. Method names are the document's headings."""

    def __init__(self, api: Any, by: Any) -> None:
        self.app = api("route:read", "decisions:write", "feedback:write", "export:read")
        self.admin = api("admin")
        self.by = by
        self.stream = labelled(1200, seed=2)
        self.answers_by_text = {row["prompt"]: row["answer"] for row in self.stream}

    # What every step uses.

    def post(self, client: Any, path: str, body: Any = None, status: int = 201) -> Any:
        answer = client.post(path, body)
        assert answer.status_code == status, answer.content
        return answer.json()

    def get(self, path: str) -> Any:
        answer = self.app.get(path)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def run_queued(self, kind: str) -> Any:
        """What a worker does: claim the one job of this kind that waits, and run it to its end."""
        from jobs.models import Job
        from jobs.runner import run_job

        job = Job.objects.get(kind=kind, state="queued")
        assert run_job(job.id) == "succeeded", Job.objects.get(id=job.id).error
        job.refresh_from_db()
        return job.result

    def decide(self, rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Asks FILER about each row; (row, answer) pairs."""
        answers = []
        for start in range(0, len(rows), ASKED_AT_ONCE):
            part = rows[start : start + ASKED_AT_ONCE]
            items = [{"state": {"text": row["prompt"]}, "unit": row["id"]} for row in part]
            answers += self.post(self.app, "agents/filer/decide", items)["answers"]
        return list(zip(rows, answers, strict=True))

    def judge(self, decided: list[tuple[dict[str, Any], dict[str, Any]]]) -> int:
        """The person's verdicts on nine answers of ten; how many there were."""
        items = [
            {
                "metric": "verdict",
                "value": "confirmed" if answer["action"] == row["answer"] else "corrected",
                "decision_id": answer["decision_id"],
                "idempotency_key": f"verdict:{answer['decision_id']}",
            }
            for place, (row, answer) in enumerate(decided)
            if place % 10
        ]
        kept = self.post(self.app, "feedback", items)["kept"]
        assert not any(item["duplicate"] for item in kept)
        assert all(item["duplicate"] for item in self.post(self.app, "feedback", items)["kept"])
        return len(kept)

    # Before the first decision

    def teach_base(self) -> None:
        from decisions.models import Agent
        from training.datasets.snapshots import import_labelled

        body = {
            "slug": "filer",
            "name": "Filer",
            "kind": "FILER",
            "unit": "note",
            "prompt_template": "{{ text }}",
            "options": OPTIONS,
            "max_prompt_tokens": 32,
            "temperature": 0.7,
            "epsilon": 0.1,
        }
        self.post(self.admin, "agents", body)
        agent = Agent.objects.get(slug="filer")
        self.taught = import_labelled(by=self.by, agent=agent, name="taught", rows=labelled(120, seed=1))
        self.heldout = import_labelled(by=self.by, agent=agent, name="held out", rows=labelled(300, seed=3))
        asked = {
            "agent": "filer",
            "method": "pretrain",
            "dataset": str(self.taught.id),
            "heldout": str(self.heldout.id),
            "base_model": "tiny",
            "settings": TINY | {"base": {"tiny": {"vocabulary": 500, "hidden": 64}}},
        }
        run = self.post(self.admin, "runs", asked)
        self.run_queued("training.supervise_run")
        assert self.get(f"runs/{run['id']}")["produced_version"] == "filer:1"

    # The loop

    def serve(self) -> None:
        item = {"state": {"text": self.stream[0]["prompt"]}, "unit": self.stream[0]["id"]}
        self.answer = self.post(self.app, "agents/filer/decide", item)
        assert self.answer["action"] in OPTIONS
        assert self.answer["model_version"] == "filer:1"
        assert self.answer["variant"] is None
        assert sum(self.answer["probabilities"].values()) == pytest.approx(1)
        assert self.answer["propensity"] == self.answer["probabilities"][self.answer["action"]]

    def record(self) -> None:
        stored = self.get(f"decisions/{self.answer['decision_id']}")
        assert stored["action"] == self.answer["action"]
        assert stored["propensity"] == self.answer["propensity"]
        assert (stored["temperature"], stored["epsilon"]) == (0.7, 0.1)
        # The same ledger takes what was decided elsewhere; a repeat is one row, other content a conflict.
        elsewhere = {
            "id": _fresh_id(),
            "agent": "filer",
            "state": {"text": "a flight to book"},
            "action": "travel",
            "policy_name": "rules",
        }
        assert self.post(self.app, "decisions", elsewhere)["kept"][0]["duplicate"] is False
        assert self.post(self.app, "decisions", elsewhere)["kept"][0]["duplicate"] is True
        conflict = self.post(self.app, "decisions", elsewhere | {"action": "work"}, status=409)
        assert conflict["error"]["code"] == "id_conflict"

    def feedback(self) -> None:
        decided = [(self.stream[0], self.answer), *self.decide(self.stream[1:600])]
        self.judged = self.judge(decided)
        assert self.judged == 540

    def reward(self) -> None:
        from decisions.tasks import queue_nightly_rewards

        queue_nightly_rewards()
        queue_nightly_rewards()  # a second beat makes no second job
        assert self.run_queued("decisions.calculate_rewards") == {"agents": 1, "rewards": self.judged}

    def dataset(self) -> None:
        asked = self.post(self.admin, "datasets", {"agent": "filer", "name": "first decisions"}, 202)
        self.run_queued("training.freeze_dataset")
        self.dataset_id = self.get(f"datasets/freezings/{asked['id']}")["dataset"]
        made = next(one for one in self.get("datasets")["results"] if one["id"] == self.dataset_id)
        assert (made["kind"], made["rows"]) == ("logged", self.judged)

    def train(self) -> None:
        base = next(version for version in self.get("versions")["results"] if version["name"] == "filer:1")
        asked = {
            "agent": "filer",
            "method": "posterior",
            "dataset": self.dataset_id,
            "replay": str(self.taught.id),
            "heldout": str(self.heldout.id),
            "base_version": base["id"],
            "settings": TINY | {"optimiser": {"learning_rate": 2e-3, "epochs": 4, "batch_size": 32}},
        }
        self.run_id = self.post(self.admin, "runs", asked)["id"]
        self.run_queued("training.supervise_run")
        assert self.get(f"runs/{self.run_id}")["state"] == "succeeded"
        kinds = {event["kind"] for event in self.get(f"runs/{self.run_id}/events?limit=500")["results"]}
        assert {"queued", "running", "started", "metric", "checkpoint", "finished", "succeeded"} <= kinds

    def evaluate(self) -> None:
        scores = self.get(f"runs/{self.run_id}")["scores"]
        difference = scores["differences"]["accuracy"]
        assert scores["scores"]["base"]["accuracy"]["n"] == 300
        assert difference["low"] > 0, difference
        assert difference["mean"] > 0.33, difference  # about 0.40; the replayed labels alone give 0.26

    def register(self) -> None:
        self.version = next(row for row in self.get("versions")["results"] if row["name"] == "filer:2")
        assert self.version["method"] == "posterior"
        assert self.version["parent"] is not None
        assert self.version["aliases"] == []  # nobody serves it yet
        assert self.get("models")["results"][0]["champion"] == "filer:1"

    def export(self) -> None:
        from models_registry.artifacts.opening import artifact_path, verify_artifact

        export = self.post(self.admin, f"versions/{self.version['id']}/export")
        self.run_queued("training.export_version")
        done = self.get(f"exports/{export['id']}")
        assert done["state"] == "ready"
        assert "model.safetensors" in verify_artifact(done["digest"])["files"]
        assert (artifact_path(done["digest"]) / "config.json").is_file()

    def experiment(self) -> None:
        plan = {
            "treatment": self.version["id"],
            "reason": "trained on the feedback of the walk",
            "treatment_share": 0.5,
            "exposure_window_seconds": 0,
            "attribution_window_seconds": 3600,
            "min_units_per_arm": 50,
            "min_seconds": 0,
            "guardrails": [{"measure": "error_rate", "margin": 0.2}],
        }
        self.experiment_id = self.post(self.admin, "experiments", plan)["id"]
        decided = self.decide(self.stream[600:])
        arms = {answer["variant"] for _, answer in decided}
        assert arms == {"control", "treatment"}
        again = self.decide(self.stream[600:620])
        for (_, first), (_, second) in zip(decided[:20], again, strict=True):
            assert first["variant"] == second["variant"]  # an assignment is sticky
        self.judge(decided)

    def promote(self) -> None:
        from decisions.rewards.maturing import mature_outcomes
        from decisions.tasks import queue_outcomes

        queue_outcomes()
        assert self.run_queued("decisions.mature_outcomes")["units"] == 0  # the window is open
        # What the job finds once the window has passed.
        [matured] = mature_outcomes(now=timezone.now() + dt.timedelta(hours=2))
        assert (matured.units, matured.action) == (600, "promote")
        ended = self.get(f"experiments/{self.experiment_id}")
        assert (ended["state"], ended["sample_ratio_mismatch"]) == ("promoted", False)
        assert self.get("models")["results"][0]["champion"] == "filer:2"
        [(_, answer)] = self.decide([labelled(1, seed=4)[0]])
        assert (answer["model_version"], answer["variant"]) == ("filer:2", None)


STEPS = (
    Walk.serve,
    Walk.record,
    Walk.feedback,
    Walk.reward,
    Walk.dataset,
    Walk.train,
    Walk.evaluate,
    Walk.register,
    Walk.export,
    Walk.experiment,
    Walk.promote,
)


def _fresh_id() -> str:
    from workspaces.storage.ids import uuid7

    return str(uuid7())


@pytest.mark.slow
@pytest.mark.core
@pytest.mark.django_db(transaction=True)
def test_one_decision_walks_the_whole_loop(api: Any, by: Any, model_server: str) -> None:
    walk = Walk(api, by)
    walk.teach_base()
    for step in STEPS:
        step(walk)


def test_the_document_names_the_steps_that_are_performed() -> None:
    assert STEP_HEADING.findall(DOCUMENT.read_text()) == [step.__name__.capitalize() for step in STEPS]


def test_the_document_names_code_that_is_there() -> None:
    places = PLACE.findall(DOCUMENT.read_text())
    assert len(places) > 20
    missing = []
    for path, name in places:
        source = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        if not source or (name and not re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b.*=", source, re.MULTILINE)):
            missing.append(f"{path}::{name}")
    assert not missing
