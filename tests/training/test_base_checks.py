"""Whatever starts or resumes a training asks the same check of its base first: a refusal names what would work, and
nothing has changed. A hub's model that is not downloaded is checked by its config.json alone."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from jobs.models import Job
from jobs.runner import run_job
from models_registry.models import ModelVersion
from tools.factories import OPTIONS, DatasetSnapshotFactory, DecisionFactory, FeedbackFactory, RehearsalFactory
from training.engine.spec.methods import RowKind
from training.errors import InvalidPipeline, InvalidRun
from training.local.plans import Rows, Training, UnusableRun, make_plan
from training.loops.first_model.services import start_training
from training.loops.pipeline.plan import PipelinePlan
from training.loops.pipeline.services import PREFIX, resume_pipeline, start_pipeline
from training.loops.rehearsal.services import resume_rehearsal
from training.models import DatasetSnapshot, Rehearsal, TrainingRun
from training.runs import architectures, hub_configs
from training.runs.defaults.matrices import adapt_usable_matrices
from training.runs.services import RunPlan, check_plan, prepare_run, start_run
from workspaces.errors import InvalidInput
from workspaces.models import Scope, Workspace

pytestmark = pytest.mark.django_db
NO_MODEL = "no causal language model can be made of its config.json"
RIGHT = "a causal language model: llama, mistral"
HUB = "example/small"
LORA = {"lora": {"targets": "query-value"}}


@pytest.fixture
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights that no run can train; the engine, which would say so in seconds, has said it already."""
    place = tmp_path / "models" / "encoder"
    place.mkdir(parents=True)
    (place / "config.json").write_text('{"model_type": "t5"}')
    (place / "model.safetensors").write_bytes(b"")
    settings.BASE_MODELS = [str(place.parent), HUB]
    answer = json.dumps({"error": NO_MODEL})
    monkeypatch.setattr(architectures, "ASK_TARGETS", (sys.executable, "-c", f"print({answer!r})"))
    return place


@pytest.fixture
def labelled(agent: Any) -> DatasetSnapshot:
    return DatasetSnapshotFactory(agent=agent, kind="labelled", rows=7)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Texts for a rehearsal."""
    rows = [{"text": f"{'abcdefghij'[n % 10] * 9} {n}", "label": OPTIONS[n % 3]} for n in range(300)]
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def count_rows() -> tuple[int, ...]:
    return tuple(kind.objects.count() for kind in (TrainingRun, Job, Rehearsal, Workspace, DatasetSnapshot))


class TestEveryStarter:
    @pytest.mark.parametrize("lora", [True, False])
    def test_a_first_model(self, agent: Any, by: Any, folder: Path, lora: bool) -> None:
        for number in range(30):
            decided = DecisionFactory(agent=agent, action=OPTIONS[number % 3])
            FeedbackFactory(decision=decided, value="confirmed")
        before = count_rows()
        with pytest.raises(InvalidRun) as refused:
            start_training(by=by, agent=agent, base_model=str(folder), lora=lora)
        (fault,) = refused.value.faults
        assert (fault.field, fault.reason) == ("base_model", NO_MODEL) and fault.expected.startswith(RIGHT)
        assert count_rows() == before

    def test_a_run_by_service_and_form(
        self, agent: Any, by: Any, labelled: Any, folder: Path, admin: Any, page_client: Any
    ) -> None:
        before = count_rows()
        with pytest.raises(InvalidRun, match="cannot start"):
            start_run(by=by, agent=agent, plan=RunPlan("sft", labelled, base_model=str(folder)))
        form = {"agent": str(agent.id), "method": "sft", "dataset": str(labelled.id), "base": str(folder)}
        answer = page_client(admin).post(reverse("pages:run-start", args=[agent.workspace.slug]), form)
        assert answer.status_code == 400 and NO_MODEL in answer.context["form"].errors["base"][0]
        assert count_rows() == before

    def test_a_sweep(self, api: Any, agent: Any, labelled: Any, folder: Path) -> None:
        before = count_rows()
        body = {"agent": agent.slug, "method": "sft", "dataset": str(labelled.id), "base_model": str(folder)}
        answer = api(Scope.ADMIN).post("runs/sweeps", body | {"grid": {"seed": [0, 1]}})
        assert answer.status_code == 400 and NO_MODEL in json.dumps(answer.json())
        assert count_rows() == before

    def test_a_pipeline_and_one_that_is_resumed(self, agent: Any, by: Any, folder: Path) -> None:
        DecisionFactory(agent=agent, action=OPTIONS[0])
        plan = PipelinePlan(method="posterior", model=str(folder))
        before = count_rows()
        with pytest.raises(InvalidPipeline) as refused:
            start_pipeline(by=by, agent=agent, plan=plan)
        assert NO_MODEL in [fault.reason for fault in refused.value.faults]
        assert count_rows() == before
        (folder / "config.json").write_text('{"model_type": "llama"}')
        payload = {
            "pipeline": f"{PREFIX}1", "agent": agent.slug, "requested_by": "x", "plan": plan.as_plain(),
            "kind": "logged", "base_version": None, "base_model": str(folder), "root": str(folder),
            "heldout": None, "replay": None, "unused_at": None,
        }  # fmt: skip
        ended = Job.objects.create(
            kind="training.loops.pipeline", workspace=agent.workspace, payload=payload, state="dead",
            finished_at="2026-01-01T00:00:00Z",
        )  # fmt: skip
        (folder / "config.json").write_text('{"model_type": "t5"}')
        with pytest.raises(InvalidPipeline):
            resume_pipeline(by=by, job=ended)
        assert Job.objects.count() == 1

    @pytest.mark.parametrize("lora", [[], ["--lora"]])
    def test_a_rehearsal_by_the_command(self, notes: Path, folder: Path, lora: list[str]) -> None:
        before = count_rows()
        arguments = ("--text-field", "text", "--label-field", "label", "--base", str(folder), *lora)
        with pytest.raises(SystemExit) as ended:
            call_command("rehearse", str(notes), *arguments, stderr=(said := io.StringIO()))
        assert ended.value.code == 2 and NO_MODEL in said.getvalue() and RIGHT in said.getvalue()
        assert count_rows() == before

    def test_a_rehearsal_by_its_page_and_one_that_is_resumed(
        self, notes: Path, folder: Path, admin: Any, workspace: Any, page_client: Any, by: Any
    ) -> None:
        before = count_rows()
        with notes.open("rb") as file:
            form = {"file": file, "text_field": "text", "label_field": "label", "base": str(folder)}
            answer = page_client(admin).post(reverse("pages:rehearsal-start", args=[workspace.slug]), form)
        assert answer.status_code == 400 and NO_MODEL in answer.context["form"].errors["base"][0]
        assert count_rows() == before
        stopped = RehearsalFactory(plan={"base": str(folder)})
        with pytest.raises(InvalidInput) as refused:
            resume_rehearsal(by=by, rehearsal=stopped)
        assert NO_MODEL in refused.value.faults[0].reason and not Job.objects.exists()

    def test_the_command_that_needs_no_instance(self, folder: Path, tmp_path: Path) -> None:
        row = {"id": "1", "prompt": "a flight", "options": ["travel", "work"], "answer": "travel"}
        (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
        arguments = ("--data", tmp_path / "rows.jsonl", "--output", tmp_path / "out", "--model", folder)
        with pytest.raises(SystemExit) as ended:
            call_command("train", *map(str, arguments), "--method", "sft", stderr=(said := io.StringIO()))
        assert ended.value.code == 2 and NO_MODEL in said.getvalue() and not (tmp_path / "out").exists()


def test_a_recipe_s_adapter_is_on_matrices_that_the_base_has(folder: Path) -> None:
    recipe = {"lora": {"r": 8}}
    assert adapt_usable_matrices(recipe, str(folder)) == recipe
    (folder / "config.json").write_text('{"model_type": "qwen3_moe"}')
    assert adapt_usable_matrices(recipe, str(folder)) == {"lora": {"r": 8, "targets": "attention"}}
    assert adapt_usable_matrices({}, str(folder)) == {}


class TestHubs:
    @pytest.fixture
    def hub(self, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        """What the process says that asks the hub."""
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

        def say(program: str) -> None:
            hub_configs.forget_hubs()
            monkeypatch.setattr(hub_configs, "FETCH_CONFIG", (sys.executable, "-c", program))

        say("import sys; sys.exit('no program was set')")
        yield say
        hub_configs.forget_hubs()

    @pytest.fixture
    def gpt2(self, tmp_path: Path) -> str:
        """A program that gives the config.json of a GPT-2."""
        (tmp_path / "fetched").mkdir()
        (tmp_path / "fetched" / "config.json").write_text('{"model_type": "gpt2"}')
        told = json.dumps({"folder": str(tmp_path / "fetched"), "revision": "1"})
        return f"print({told!r})"

    def test_its_config_is_fetched_and_refuses_at_once(self, agent: Any, labelled: Any, hub: Any, gpt2: str) -> None:
        hub(gpt2)
        plan = RunPlan("sft", labelled, base_model=HUB, settings=LORA)
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, plan)
        (fault,) = refused.value.faults
        assert (fault.field, fault.expected) == ("settings.lora.targets", "all-linear or attention")

    @pytest.mark.parametrize(
        ("program", "why"),
        [
            ("import sys; sys.exit('example/small cannot be fetched: Name or service not known')", "Name or service"),
            ("import time; time.sleep(60)", "the hub did not answer within 0.3 seconds"),
        ],
    )
    def test_where_it_cannot_be_had_the_plan_says_when_it_is_checked(
        self, api: Any, agent: Any, labelled: Any, hub: Any, program: str, why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hub_configs, "SECONDS", 0.3 if "sleep" in program else 10.0)
        hub(program)
        body = {"agent": agent.slug, "method": "sft", "dataset": str(labelled.id), "base_model": HUB}
        answer = api(Scope.ADMIN).post("runs", body | {"settings": LORA, "dry_run": True}).json()
        assert why in answer["unchecked"] and "checked when the run has downloaded it" in answer["unchecked"]
        # A form that asks at every change does not wait each time.
        hub_configs.FETCH_CONFIG = ("false",)  # type: ignore[assignment]
        plan = RunPlan("sft", labelled, base_model=HUB, settings=LORA)
        assert why in prepare_run(agent, plan).unchecked

    def test_the_run_s_job_checks_before_it_stores_anything(
        self, agent: Any, by: Any, labelled: Any, hub: Any, gpt2: str
    ) -> None:
        hub("import sys; sys.exit('offline')")
        run = start_run(by=by, agent=agent, plan=RunPlan("sft", labelled, base_model=HUB, settings=LORA))
        assert "offline" in run.events.get().details["unchecked"]
        hub(gpt2)
        run_job(run.job_id)
        run.refresh_from_db()
        assert run.state == "failed" and "all-linear or attention" in run.error
        assert not ModelVersion.objects.exists()

    def test_the_command_that_needs_no_instance_is_told_so(self, hub: Any, gpt2: str, tmp_path: Path) -> None:
        row = {"id": "1", "prompt": "a flight", "options": ["travel", "work"], "answer": "travel"}
        rows, asked = Rows(RowKind.LABELLED, [row]), Training("sft", HUB, quantised=False, settings=LORA)
        hub("import sys; sys.exit('offline')")
        assert "offline" in make_plan(asked, rows, tmp_path / "out").unchecked
        hub(gpt2)
        with pytest.raises(UnusableRun, match="all-linear or attention"):
            make_plan(asked, rows, tmp_path / "out")

    def test_a_hub_that_must_not_be_asked_is_not(self, hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert "HF_HUB_OFFLINE is set" in architectures.tell_unchecked(HUB)
