"""A base whose architecture cannot be adapted as asked is refused before anything starts, wherever it is asked."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from jobs.models import Job
from tools.factories import DatasetSnapshotFactory
from training.errors import InvalidRun
from training.models import TrainingRun
from training.runs import architectures
from training.runs.services import RunPlan, check_plan
from workspaces.models import Scope

pytestmark = pytest.mark.django_db
WHY = "query-value cannot be adapted in GPT-2: queries, keys and values are one matrix"
RIGHT = "all-linear or attention"


@pytest.fixture
def base(tmp_path: Path, settings: Any) -> Path:
    """A folder that says what it is; nothing reads its weights."""
    folder = tmp_path / "models" / "small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    (folder / "model.safetensors").write_bytes(b"")
    settings.BASE_MODELS = [str(folder.parent)]
    return folder


@pytest.fixture
def plan(agent: Any, base: Path) -> Any:
    rows = DatasetSnapshotFactory(agent=agent, kind="labelled", rows=7)
    return lambda targets: RunPlan("sft", rows, base_model=str(base), settings={"lora": {"targets": targets}})


def test_a_plan_names_the_field_the_reason_and_what_would_be_right(agent: Any, plan: Any) -> None:
    with pytest.raises(InvalidRun) as refused:
        check_plan(agent, plan("query-value"))
    (fault,) = refused.value.faults
    assert (fault.field, fault.expected) == ("settings.lora.targets", RIGHT) and fault.reason.startswith(WHY)
    assert check_plan(agent, plan("attention"))["lora"] == {"targets": "attention"}


@pytest.mark.parametrize("dry", [True, False])
def test_so_does_the_api(api: Any, agent: Any, plan: Any, dry: bool) -> None:
    asked = plan("query-value")
    body = {
        "agent": agent.slug,
        "method": asked.method,
        "dataset": str(asked.dataset.id),
        "base_model": asked.base_model,
        "settings": asked.settings,
        "dry_run": dry,
    }
    answer = api(Scope.ADMIN).post(reverse("api-runs"), body)
    assert answer.status_code == 400
    assert WHY in json.dumps(answer.json()) and RIGHT in json.dumps(answer.json())
    assert not TrainingRun.objects.exists() and not Job.objects.exists()


def test_so_does_the_command(base: Path, tmp_path: Path) -> None:
    row = {"id": "1", "prompt": "a flight", "options": ["travel", "work"], "answer": "travel"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    arguments = ("--data", tmp_path / "rows.jsonl", "--output", tmp_path / "out", "--model", base, "--method", "sft")
    with pytest.raises(SystemExit) as ended:
        call_command(
            "train",
            *map(str, arguments),
            "--set",
            '{"lora": {"targets": "query-value"}}',
            stderr=(said := io.StringIO()),
        )
    assert ended.value.code == 2 and WHY in said.getvalue() and RIGHT in said.getvalue()
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_of_other_architectures_the_engine_is_asked_once(
    agent: Any, plan: Any, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "config.json").write_text(
        json.dumps({"model_type": "gpt_bigcode", "n_embd": 32, "n_layer": 1, "n_head": 2})
    )
    with pytest.raises(InvalidRun) as refused:
        check_plan(agent, plan("query-value"))
    assert refused.value.faults[0].expected == RIGHT
    monkeypatch.setattr(architectures, "ASK_TARGETS", ("false",))
    assert check_plan(agent, plan("attention"))
    monkeypatch.undo()
    (base / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(InvalidRun) as refused:
        check_plan(agent, plan("attention"))
    assert refused.value.faults[0].field == "base_model" and "causal language model" in refused.value.faults[0].reason
