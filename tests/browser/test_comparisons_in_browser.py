"""*Train the best*: from the list of runs through its form to the comparison while it works, and with its result: the
pages fit, are accessible, and lead on."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from tests.browser.accessibility import look_at
from tools import factories
from training.loops.best import KIND
from training.runs.candidates import NO_ENCODER


def test_the_pages_of_a_comparison_fit_are_accessible_and_lead_on(
    tab: Any, admin: Any, scene: Any, workspace: Any, log_in: Any, complaints: list[str]
) -> None:
    agent = scene.agent
    log = factories.DatasetSnapshotFactory(agent=agent, name="decisions of November", kind="labelled", rows=2048)
    heldout = factories.DatasetSnapshotFactory(agent=agent, name="held-out rows", rows=1000)

    def compare(tag: str, **job: Any) -> str:
        for place, (method, mean) in enumerate((("classifier", 0.845), ("pretrain", 0.831))):
            ended = "finished_at" in job
            version = factories.ModelVersionFactory(registered_model=agent.registered_model) if ended else None
            run = factories.TrainingRunFactory(
                agent=agent, dataset=log, heldout=heldout, method=method, tags=[tag], produced_version=version,
                metrics={"decision_milliseconds": 0.2 * 10**place, "seconds": 11.0 * 8**place} if ended else {},
                state="succeeded" if ended else "running", finished_at=timezone.now() if ended else None,
            )  # fmt: skip
            if version is not None:
                score = {"mean": mean, "low": mean - 0.02, "high": mean + 0.02, "n": 1000, "clusters": 150}
                factories.EvaluationFactory(run=run, version=version, scores={"trained": {"accuracy": score}})
        payload = {
            "agent": agent.slug, "name": f"Best policy of {agent.name} on {log.name}", "tag": tag,
            "left_out": {"encoder": NO_ENCODER}, "requested_by": admin.email,
            "until": (timezone.now() + dt.timedelta(hours=1)).isoformat(),
        }  # fmt: skip
        made = factories.JobFactory(workspace=workspace, kind=KIND, payload=payload, **job)
        return reverse("pages:best", args=[workspace.slug, made.id])

    working = compare("best-1", progress=0.4, message="1 of 2 candidates trained; pretrain: step 120 of 300")
    ended = compare(
        "best-2", state="succeeded", started_at=timezone.now(), finished_at=timezone.now(), result={"best": "x"}
    )
    log_in(tab, admin)
    found = []
    tab.goto(reverse("pages:runs", args=[workspace.slug]))
    tab.get_by_role("link", name="Train the best").click()
    found += look_at(tab, "best-form")
    tab.get_by_label("Minutes at most").fill("0")
    tab.get_by_role("button", name="Train the best").click()
    assert "above 0" in tab.locator("main").inner_text() and Job.objects.filter(kind=KIND).count() == 2
    complaints[:] = [line for line in complaints if "400" not in line]  # the refusal just seen
    for name, path in (("live", working), ("ended", ended)):
        tab.goto(path)
        found += look_at(tab, f"best-{name}")
    assert "is the best for its price: 84.5%" in tab.locator("#best-says").inner_text()
    tab.get_by_role("link", name="Open its run").click()
    tab.wait_for_url("**/runs/*")
    assert found == []
