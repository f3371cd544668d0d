"""The list of pipelines, and the page of one while it works and once it has ended: they fit, and are accessible."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils import timezone

from tests.browser.accessibility import look_at
from tools import factories
from training.loops.pipeline.plan import PipelinePlan, Prepared
from training.loops.pipeline.services import KIND
from training.loops.pipeline.stored import StoredPipeline
from training.models import DatasetKind


def test_the_pages_of_pipelines_fit_and_are_accessible(
    tab: Any, admin: Any, scene: Any, workspace: Any, log_in: Any
) -> None:
    def make(name: str, **job: Any) -> str:
        prepared = Prepared(
            plan=PipelinePlan(
                method="grpo", deploy="experiment", deploy_ollama=True, quantisation="Q4_K_M",
                ollama_host="http://ollama.example.org:11434",
            ),
            kind=DatasetKind.LOGGED, base_version=scene.version,
            base_model="", root="tiny", heldout=None, replay=None, unused_at=None,
        )  # fmt: skip
        payload = StoredPipeline(scene.agent, name, admin.email, prepared).as_payload()
        made = factories.JobFactory(workspace=workspace, kind=KIND, payload=payload, **job)
        return reverse("pages:pipeline", args=[workspace.slug, made.id])

    dataset = factories.DatasetSnapshotFactory(agent=scene.agent, name="pipeline-5f1c9a20", rows=2048)
    run = factories.TrainingRunFactory(agent=scene.agent, dataset=dataset, method="grpo", tags=["pipeline-5f1c9a20"])
    pages = {
        "live": make("pipeline-5f1c9a20", progress=0.4, message="training: step 120 of 300"),
        "dead": make(
            "pipeline-77aa01be",
            state="dead",
            started_at=timezone.now(),
            finished_at=timezone.now(),
            error="The run cannot start with these settings. dataset: all its rows were right. No run was started.",
        ),
    }
    pages["list"] = reverse("pages:pipelines", args=[workspace.slug])
    pages["form"] = reverse("pages:pipeline-new", args=[workspace.slug])
    log_in(tab, admin)
    found = []
    for name, path in pages.items():
        tab.goto(path)
        found += look_at(tab, f"pipeline-{name}")
    tab.goto(pages["list"])
    tab.get_by_role("link", name="pipeline-5f1c9a20", exact=True).click()
    tab.get_by_role("link", name=str(run)).click()
    tab.get_by_role("link", name="pipeline-5f1c9a20", exact=True).first.click()
    tab.wait_for_url(f"**{pages['live']}")
    assert found == []
