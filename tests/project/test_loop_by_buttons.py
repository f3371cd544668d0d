"""The loop by its buttons alone, with the real engine: what the pages offer first starts, and ends well."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from jobs.runner import run_job
from tests.engine_task import labelled
from tools.factories import DecisionFactory, FeedbackFactory
from training.datasets import import_labelled
from training.models import ExportJob, TrainingRun

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_labels_become_a_model_and_its_decisions_a_better_one_to_download(
    agent: Any, by: Any, workspace: Any, admin: Any, page_client: Any, store: Path
) -> None:
    rows = labelled(60, 1)
    import_labelled(by=by, agent=agent, name="labels", rows=rows[:40])
    import_labelled(by=by, agent=agent, name="held-out rows", rows=rows[40:])
    client = page_client(admin)

    def at(name: str, *arguments: Any) -> str:
        return reverse(f"pages:{name}", args=[workspace.slug, *arguments])

    def work() -> None:
        for job in Job.objects.filter(state="queued").order_by("id"):
            run_job(job.id)

    form = client.get(at("run-start")).context["form"]
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    assert client.post(at("run-start"), {**shown, "epochs": 1}).status_code == 302  # less than the recipe's
    work()
    assert str(TrainingRun.objects.get(state="succeeded").produced_version) == "filer:1"

    for row in rows[:7]:
        told = {"state": {"text": row["prompt"]}, "options": row["options"], "action": row["answer"]}
        FeedbackFactory(decision=DecisionFactory(agent=agent, **told))
    client.post(at("rewards-calculate"))
    work()
    client.post(at("train-new"))
    work()
    work()  # the run that the first job has started
    run = TrainingRun.objects.select_related("dataset", "heldout", "replay", "produced_version").latest("id")
    assert (run.state, str(run.produced_version)) == ("succeeded", "filer:2"), run.error
    assert (run.dataset.rows, run.heldout.name, run.replay.name) == (7, "held-out rows", "labels")
    assert "The gate " in client.get(at("run", run.id)).content.decode()

    client.post(at("version-export", run.produced_version_id))
    work()
    answer = client.get(at("export-download", ExportJob.objects.get(state="ready").id))
    with tarfile.open(fileobj=io.BytesIO(b"".join(answer.streaming_content))) as tar:
        names = {Path(name).name for name in tar.getnames()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
