"""A folder as other programs save it, of three families with random weights, goes the whole way: runs of all weights
and of an adapter, evaluation, export, the model server; and its name stays with all that comes of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from models_registry.backends.endpoint import ScoreItem
from models_registry.backends.model_server import score
from models_registry.backends.prompts import Prompt
from tests.engine_task import labelled
from tools.factories import OPTIONS
from training.datasets.snapshots import import_labelled
from training.exports.services import start_export
from training.models import TrainingRun
from training.runs.services import RunPlan, start_run

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
QUICK: dict[str, Any] = {
    "optimiser": {"learning_rate": 3e-3, "epochs": 1, "batch_size": 32},
    "max_prompt_tokens": 16,
    "threads": 1,
    "evaluate": {"free_rows": 4},
}


@pytest.fixture(params=["qwen2", "llama", "gemma3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, tiny_run: Path, settings: Any) -> Path:
    """Weights, config and tokenizer. Only Qwen's has a chat template, as Gemma's base models have none."""
    from transformers import PreTrainedTokenizerFast

    from tests.training.engine.families import FAMILIES  # not at the top: each worker that collects would load torch

    tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(tiny_run / "attempts" / "1" / "model")
    place = tmp_path / "models" / f"{request.param}-shape"
    if request.param != "qwen2":
        tokenizer.chat_template = None
    FAMILIES[request.param](len(tokenizer)).save_pretrained(place)
    tokenizer.save_pretrained(place)
    settings.BASE_MODELS = [str(place.parent)]
    return place


def finish(run: TrainingRun) -> Any:
    assert run_job(run.job_id) is JobState.SUCCEEDED, Job.objects.get(id=run.job_id).error
    return TrainingRun.objects.select_related("produced_version__artifact").get(id=run.id).produced_version


def ask(command: str, *arguments: object) -> dict[str, Any]:
    call_command(command, *map(str, arguments), stdout=(out := io.StringIO()), stderr=io.StringIO())
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def test_it_is_trained_evaluated_exported_and_served(
    folder: Path, served: None, agent: Any, by: Any, tmp_path: Path, admin: Any, page_client: Any
) -> None:
    train = import_labelled(by=by, agent=agent, name="train", rows=labelled(64, 1))
    heldout = import_labelled(by=by, agent=agent, name="held-out rows", rows=labelled(24, 2))
    first = RunPlan("pretrain", train, base_model=str(folder), heldout=heldout, settings=QUICK)
    whole = finish(start_run(by=by, agent=agent, plan=first))
    lora = {**QUICK, "lora": {"r": 4, "alpha": 8}, "optimiser": {"learning_rate": 0.02, "epochs": 4, "batch_size": 16}}
    over_it = RunPlan("sft", train, base_version=whole, heldout=heldout, settings=lora)
    adapter = finish(start_run(by=by, agent=agent, plan=over_it))
    export = start_export(by=by, version=adapter)
    assert run_job(export.job_id) is JobState.SUCCEEDED
    export.refresh_from_db()
    digests = [whole.artifact.digest, adapter.artifact.digest, export.artifact.digest]
    kinds = [version.artifact.kind for version in (whole, adapter)]
    assert kinds == ["model", "adapter"] and adapter.evaluations.get().rows == 24

    # The adapter over its base and both merged answer alike; the base alone does not.
    asked = [ScoreItem(digest, Prompt("a flight and a hotel"), tuple(OPTIONS), 16) for digest in digests]
    by_base, by_adapter, merged = (answer.probabilities for answer in score(asked))
    assert by_adapter == pytest.approx(merged, abs=1e-4) and by_adapter != pytest.approx(by_base, abs=1e-3)

    # The base's name: in cards, and, which no family changes, in commands and on pages.
    for digest in digests:
        card = (artifact_path(digest) / "README.md").read_text()
        assert f'base_model: "{folder.name}"' in card and f"{folder.name}; its terms apply" in card
    if folder.name != "gemma3-shape":
        return
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in labelled(12, 3)))
    flags = ("--test-data", rows, "--agent-type", "filer", "--free-rows", 2)
    for model in (str(adapter), artifact_path(digests[2])):
        told = ask("evaluate", "--model", model, *flags)
        assert (told["base_model"], told["rows"]) == (folder.name, 12) and 0 <= told["accuracy"] <= 1
    runs = ask("runs", "list", "--json")["runs"]
    assert [(run["base"], run["base_model"]) for run in runs] == [
        (str(whole), folder.name),
        (str(whole.parent), folder.name),
    ]
    pages = [reverse("pages:version", args=[agent.workspace.slug, one.id]) for one in (whole, adapter)]
    pages += [reverse("pages:run", args=[agent.workspace.slug, run["run"]]) for run in runs]
    for page in pages:
        assert folder.name in page_client(admin).get(page).content.decode(), page
