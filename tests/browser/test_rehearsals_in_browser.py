"""Rehearsals in a real browser: the report, the progress that ends by itself, the form with its faults, the widths."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from jobs.models import Job, JobState
from tests.browser.accessibility import axe_findings, look_at
from tools import factories
from tools.rehearsals import make_rehearsal, read_report
from training.loops.rehearsal.loop import SEED_LABELS, round_name
from training.loops.rehearsal.services import KIND
from training.models import Rehearsal, TrainingRun


def at(name: str, row: Any) -> str:
    return reverse(f"pages:{name}", args=[row.workspace.slug, row.pk])


def page(name: str, workspace: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug])


@pytest.fixture
def working(workspace: Any, admin: Any) -> Any:
    """In a workspace of its own: the second of three seeds is being done, its second round is trained now."""
    own = factories.WorkspaceFactory(slug="rehearsal-tickets", name="Rehearsal of tickets.csv")
    factories.MembershipFactory(workspace=own, user=admin, role="admin")
    now = timezone.now()
    job = factories.JobFactory(
        workspace=own,
        kind=KIND,
        state=JobState.RUNNING,
        lease_until=now,
        started_at=now - dt.timedelta(minutes=9),
        progress=0.41,
        message="seed 1: round 2: training (round 2 of 4)",
    )
    rehearsal = make_rehearsal(
        workspace=own,
        seeds=3,
        done=1,
        job=job,
        name="Rehearsal of tickets.csv",
        about={**read_report()["about"], "file": "tickets.csv"},
    )
    agent = factories.AgentFactory(workspace=own, slug="seed-1")
    for name, accuracy in ((SEED_LABELS, 0.572), (round_name(1), 0.768), (round_name(2), None)):
        dataset = factories.DatasetSnapshotFactory(agent=agent, name=name, rows=2107)
        run = factories.TrainingRunFactory(agent=agent, dataset=dataset)
        if accuracy is None:
            learning = factories.JobFactory(workspace=own, state=JobState.RUNNING, lease_until=now, started_at=now)
            TrainingRun.objects.filter(id=run.id).update(state="running", progress=0.4, job=learning)
            continue
        version = factories.ModelVersionFactory(registered_model__workspace=own)
        TrainingRun.objects.filter(id=run.id).update(state="succeeded", produced_version=version, finished_at=now)
        score = {"mean": accuracy, "low": accuracy - 0.016, "high": accuracy + 0.016, "n": 3000, "clusters": 3000}
        gain = {**score, "mean": accuracy - 0.572, "low": accuracy - 0.588, "high": accuracy - 0.556}
        factories.EvaluationFactory(
            run=run, version=version, scores={"trained": {"accuracy": score}}, differences={"accuracy": gain}
        )
    return rehearsal


def test_the_progress_moves_and_ends_with_the_report(open_tab: Any, admin: Any, working: Any, log_in: Any) -> None:
    tab = log_in(open_tab(), admin)
    tab.clock.install()
    tab.goto(at("rehearsal", working))
    bar = tab.get_by_role("progressbar")
    expect(bar).to_have_attribute("value", "0.4100")
    expect(tab.get_by_role("heading", name="So far: 33.5 points better than the base.")).to_be_visible()
    Job.objects.filter(id=working.job.id).update(progress=0.83)
    tab.clock.fast_forward(3_000)
    expect(bar).to_have_attribute("value", "0.8300")
    report = read_report(seeds=3)
    Job.objects.filter(id=working.job.id).update(state="succeeded", lease_until=None, finished_at=timezone.now())
    Rehearsal.objects.filter(id=working.id).update(report=report, results=report["seeds"])
    tab.clock.fast_forward(3_000)
    expect(tab.get_by_role("heading", name="Not shown to be better than the base.")).to_be_visible()
    expect(bar).to_have_count(0)


def test_an_admin_cancels_and_goes_on(open_tab: Any, admin: Any, working: Any, log_in: Any) -> None:
    Job.objects.filter(id=working.job.id).update(state="queued", lease_until=None)
    tab = log_in(open_tab(), admin)
    tab.goto(at("rehearsal", working))
    tab.get_by_role("link", name="Cancel").click()
    tab.get_by_role("button", name="Cancel the rehearsal").click()
    expect(tab.get_by_text("You can resume the rehearsal").first).to_be_visible()
    assert Job.objects.get(id=working.job.id).state == "cancelled"
    tab.get_by_role("button", name="Resume").click()
    expect(tab.get_by_text("Waiting for a worker")).to_be_visible()
    assert Rehearsal.objects.get(id=working.id).job_id != working.job.id


def test_every_fault_of_a_file_is_read_beside_its_field(
    open_tab: Any, admin: Any, workspace: Any, log_in: Any, tmp_path: Path, complaints: list[str]
) -> None:
    file = tmp_path / "tickets.jsonl"
    file.write_text("\n".join(json.dumps({"body": f"note {n}", "folder": "ab"[n % 2]}) for n in range(240)))
    tab = log_in(open_tab(), admin)
    tab.goto(page("rehearsals", workspace))
    tab.get_by_role("link", name="Start a rehearsal").click()
    tab.get_by_label("File", exact=True).set_input_files(file)
    tab.get_by_label("Text field").fill("text")
    tab.get_by_label("Label field").fill("folder")
    tab.get_by_label("Rounds").fill("50")
    tab.get_by_role("button", name="Start rehearsal").click()
    for label, says in (("Text field", "there are 'body', 'folder'"), ("Rounds", "enter 1 to 20")):
        expect(tab.locator(".field", has=tab.get_by_label(label)).locator(".fault")).to_contain_text(says)
    expect(tab.get_by_label("Label field")).to_have_value("folder")
    assert axe_findings(tab) == [] and not Rehearsal.objects.exists()
    complaints[:] = [one for one in complaints if "400" not in one]


def test_every_page_of_rehearsals_fits_and_is_accessible(
    tab: Any, admin: Any, scene: Any, working: Any, workspace: Any, log_in: Any
) -> None:
    many = make_rehearsal(workspace=workspace, seeds=3, about={**read_report()["about"], "file": "support tickets.csv"})
    dead = make_rehearsal(
        workspace=working.workspace,
        seeds=3,
        done=0,
        job=factories.JobFactory(
            workspace=working.workspace,
            kind=KIND,
            state="dead",
            finished_at=timezone.now(),
            started_at=timezone.now() - dt.timedelta(seconds=95),
            error="seed 0: the pretrain run failed: the engine ended with exit code 1",
        ),
    )
    log_in(tab, admin).goto(at("rehearsal", scene.rehearsal))
    _read_the_curve(tab)
    pages = {
        "list": page("rehearsals", workspace),
        "form": page("rehearsal-start", workspace),
        "seeds": at("rehearsal", many),
        "live": at("rehearsal", working),
        "dead": at("rehearsal", dead),
    }
    found: list[str] = []
    for name, path in pages.items():
        tab.goto(path)
        found += look_at(tab, f"rehearsal-{name}")
    assert found == []


def _read_the_curve(tab: Any) -> None:
    expect(tab.get_by_role("img", name="Held-out accuracy, %")).to_have_attribute(
        "aria-label", "Held-out accuracy, %: accuracy last 91.7% at decisions 10,000"
    )
    expect(tab.get_by_role("img", name="Right decisions by round")).to_be_visible()
    tab.get_by_text("Numbers").first.click()
    expect(tab.get_by_role("row", name="2,500 78.2% [76.7%, 79.6%]")).to_be_visible()
