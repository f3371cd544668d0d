"""A day of three people in one workspace, from the invitations to a new champion, by what their pages show them.

What happens beside the browser is what happens beside it in life: the app records its decisions over the API, and a
worker does the jobs. RECKONER_SCREENSHOTS=1 leaves a picture of each step in var/screenshots.
"""

from __future__ import annotations

import json
import os
import random
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import expect
from uuid_utils.compat import uuid7

from jobs.models import Job
from jobs.runner import run_job
from tests.browser.accessibility import SHOTS
from tests.engine_task import WORDS, labelled
from tools.factories import OPTIONS, PASSWORD, TrainingRunFactory
from training.datasets.snapshots import import_labelled

OWN_PASSWORD = "a harbour full of kites"
DECISIONS, WITH_FEEDBACK = 200, 188

pytestmark = pytest.mark.slow


def find_topic(text: str) -> str:
    """What the person at the queue knows of a card's text."""
    return next(topic for topic, words in WORDS.items() if set(words) & set(text.split()))


@pytest.fixture
def yesterday(by: Any, agent: Any, base_version: Any) -> None:
    """A first model, by a run on labelled rows."""
    labels = import_labelled(by=by, agent=agent, name="labels", rows=labelled(60, 1))
    ended = {"state": "succeeded", "progress": 1.0, "finished_at": timezone.now()}
    TrainingRunFactory(agent=agent, dataset=labels, base_model="tiny", produced_version=base_version, **ended)


@pytest.fixture
def decisions(api: Any, yesterday: None) -> None:
    """The app's decisions by a policy that explores, and what its users said of most."""
    rng = random.Random(8)
    sent, told = [], []
    for number, row in enumerate(labelled(DECISIONS, 3)):
        action = rng.choice(OPTIONS)
        decision = {"id": str(uuid7()), "agent": "filer", "state": {"text": row["prompt"]}, "action": action}
        sent.append(decision | {"policy_name": "outside", "propensity": 1 / 3, "confidence": 1 / 3})
        if number < WITH_FEEDBACK:
            value = "confirmed" if action == row["answer"] else "corrected"
            told.append({"metric": "verdict", "value": value, "decision_id": decision["id"]})
    app = api("decisions:write", "feedback:write")
    assert app.post("decisions", sent).status_code == 201
    assert app.post("feedback", told).status_code == 201


def work(tab: Any) -> None:
    """What the worker does: every job that waits, and those that they start; the page looks for what came of it now."""
    while (job := Job.objects.filter(state="queued").order_by("run_after", "id").first()) is not None:
        assert run_job(job.id) in ("succeeded", "queued"), Job.objects.get(id=job.id).error
    tab.clock.fast_forward(3_000)


def picture(tab: Any, name: str) -> None:
    if os.environ.get("RECKONER_SCREENSHOTS"):
        SHOTS.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=SHOTS / f"day-{name}.png", full_page=True)


def log_in(tab: Any, address: str, password: str) -> None:
    tab.get_by_label("Email").fill(address)
    tab.get_by_label("Password").fill(password)
    tab.get_by_role("button", name="Log in").click()


def go(tab: Any, place: str) -> None:
    tab.locator("#sidebar").get_by_role("link", name=place, exact=True).click()
    expect(tab.get_by_role("heading", name=place, level=1)).to_be_visible()


def invite(admin: Any, address: str, role: str) -> str:
    admin.get_by_label("E-mail address").fill(address)
    admin.get_by_label("Role", exact=True).select_option(role)
    admin.get_by_role("button", name="Make an invitation link").click()
    expect(admin.get_by_role("row").filter(has_text=address)).to_contain_text("open")
    return admin.locator("#link").inner_text().strip()


def join(tab: Any, link: str, name: str) -> None:
    tab.goto(link)
    tab.get_by_label("Your name").fill(name)
    tab.get_by_label("Password", exact=True).fill(OWN_PASSWORD)
    tab.get_by_label("The same password again").fill(OWN_PASSWORD)
    picture(tab, f"invitation-{name.lower()}")
    tab.get_by_role("button", name="Create the account and join").click()
    expect(tab.get_by_role("heading", name="Acme", level=1)).to_be_visible()


def label_what_waits(tab: Any) -> int:
    """By keys alone; how many there were."""
    tab.get_by_role("link", name="Label", exact=True).click()
    expect(tab).to_have_url(re.compile("/decisions/label$"))
    for number in range(DECISIONS):
        card = tab.get_by_role("article", name="Decision to label")
        expect(card.or_(tab.get_by_role("heading", name="No decisions left to label"))).to_be_visible()
        if not card.is_visible():
            return number
        if number == 0:
            picture(tab, "queue")
        topic = find_topic(card.get_by_label("State").inner_text())
        chosen = card.locator(".card-chose .action").inner_text()
        before = card.get_attribute("data-card")
        tab.keyboard.press("c" if chosen == topic else str(OPTIONS.index(topic) + 1))
        expect(tab.locator(f"[data-card='{before}']:visible")).to_have_count(0)
    raise AssertionError("the queue does not end")


def bring_heldout_rows(admin: Any) -> None:
    go(admin, "Imports")
    admin.get_by_role("link", name="Import a file").first.click()
    rows = "".join(json.dumps(row) + "\n" for row in labelled(150, 5)).encode()
    file = {"name": "held-out.jsonl", "mimeType": "application/json", "buffer": rows}
    admin.get_by_label("File", exact=True).set_input_files(file)
    admin.get_by_label("Name of the dataset").fill("held-out rows")
    admin.get_by_role("button", name="Check the file").click()
    admin.get_by_role("button", name="Import", exact=True).click()
    expect(admin.get_by_text("Waiting for a worker")).to_be_visible()
    work(admin)
    expect(admin.get_by_text("succeeded")).to_be_visible()
    picture(admin, "import")


def best() -> str:
    """The version that the comparison has named."""
    return str(Job.objects.get(kind="training.train_best").result["best"])


def train(admin: Any) -> None:
    """From the overview to the run that has passed its gate."""
    admin.locator("#sidebar").get_by_role("link", name="Overview").click()
    picture(admin, "overview-labelled")
    admin.get_by_role("button", name="Calculate rewards now").click()
    expect(admin.get_by_text("Waiting for a worker")).to_be_visible()
    work(admin)
    expect(admin.get_by_text("There is no new feedback.")).to_be_visible()
    picture(admin, "rewards")
    expect(admin.get_by_role("link", name="Train on new decisions")).to_be_visible()
    go(admin, "Runs")
    admin.get_by_role("button", name="Train on new decisions").click()
    expect(admin.get_by_text("Several kinds of policy then learn from the dataset")).to_be_visible()
    work(admin)
    expect(admin.get_by_text(f"{best()} (")).to_be_visible()
    picture(admin, "best")
    admin.get_by_role("link", name="Open its run").click()
    expect(admin.get_by_text("The gate passed: ")).to_be_visible()
    expect(admin.get_by_role("region", name="Events")).not_to_contain_text("{")
    picture(admin, "run")


def start_experiment(admin: Any) -> None:
    admin.get_by_role("link", name="Start an experiment").click()
    admin.get_by_role("link", name="Quick").click()
    admin.get_by_label("Reason").fill("trained on the labels of today")
    picture(admin, "experiment-form")
    admin.get_by_role("button", name="Start experiment").click()
    expect(admin.get_by_role("heading", name="No outcomes are known yet")).to_be_visible()
    picture(admin, "experiment")


def promote(admin: Any, reason: str) -> None:
    """From the experiment's page."""
    admin.get_by_role("link", name=best(), exact=True).click()
    admin.get_by_role("link", name="Promote").click()
    admin.get_by_label("Reason").fill(reason)
    picture(admin, "promote")
    admin.get_by_role("button", name=f"Promote {best()}").click()
    expect(admin.get_by_text(f"{best()} is now the champion.")).to_be_visible()
    picture(admin, "version")


def download(admin: Any, path: Path) -> set[str]:
    """The names of the exported model's files."""
    admin.get_by_role("button", name="Export", exact=True).click()
    expect(admin.get_by_text("The export as ONNX is queued.")).to_be_visible()
    work(admin)
    with admin.expect_download() as started:
        admin.get_by_role("link", name="Download").click()
    picture(admin, "exported")
    started.value.save_as(path)
    with tarfile.open(path) as tar:
        return {Path(name).name for name in tar.getnames()}


def test_three_people_take_a_model_from_invitation_to_champion(
    open_tab: Any, admin: Any, decisions: None, complaints: list[str], tmp_path: Path
) -> None:
    office, desk, sofa = open_tab(), open_tab(), open_tab()  # of the admin, the labeller and the viewer
    office.clock.install()
    office.goto("/")
    log_in(office, admin.email, PASSWORD)
    picture(office, "overview-first")
    go(office, "People")
    ben, vera = invite(office, "ben@example.org", "labeller"), invite(office, "vera@example.org", "viewer")
    picture(office, "people")
    join(desk, ben, "Ben")
    join(sofa, vera, "Vera")

    picture(desk, "overview-labeller")
    assert label_what_waits(desk) == DECISIONS - WITH_FEEDBACK
    expect(desk.get_by_text(f"{DECISIONS - WITH_FEEDBACK} labelled by you today")).to_be_visible()
    picture(desk, "queue-done")
    go(desk, "Runs")
    expect(desk.get_by_role("button", name="Train on new decisions")).to_have_count(0)

    bring_heldout_rows(office)
    train(office)
    start_experiment(office)
    sofa.reload()
    compared = sofa.get_by_role("region", name="Champion and challenger")
    expect(compared.get_by_role("link", name=f"{best()} against filer:1")).to_be_visible()
    picture(sofa, "overview-viewer-experiment")

    # The app is quiet, and the experiment would need days.
    reason = "better on held-out rows, and too little traffic"
    promote(office, reason)
    assert {"model.onnx", "options.json", "README.md"} <= download(office, tmp_path / "model.tar")

    sofa.reload()
    champion = compared.locator(".side").filter(has=sofa.get_by_text("Champion", exact=True))
    expect(champion.get_by_role("link")).to_have_text(best())
    expect(sofa.get_by_role("button", name="Calculate rewards now")).to_have_count(0)
    expect(sofa.get_by_role("link", name="Audit")).to_have_count(0)
    picture(sofa, "overview-viewer")
    sofa.goto("/w/acme/audit")
    expect(sofa.get_by_text("An admin of the workspace can change your role.")).to_be_visible()
    picture(sofa, "refused")

    go(office, "Audit")
    picture(office, "audit")
    promoted = office.get_by_role("row").filter(has_text="alias.champion").first
    expect(promoted).to_contain_text(admin.email)
    expect(promoted).to_contain_text(reason)
    expect(office.get_by_role("row").filter(has_text="person.joined")).to_have_count(2)
    go(office, "People")
    office.get_by_role("button", name="Deactivate Ben").click()
    office.get_by_role("button", name="Deactivate").click()
    expect(office.get_by_role("row").filter(has_text="ben@example.org").first).to_contain_text("deactivated")
    picture(office, "people-after")
    desk.get_by_role("link", name="Decisions").first.click()
    log_in(desk, "ben@example.org", OWN_PASSWORD)  # nobody's session outlives their membership
    desk.get_by_role("link", name="Go to the overview").click()  # from "Page not found"
    expect(desk.get_by_text("You are in no workspace yet")).to_be_visible()
    picture(desk, "deactivated")
    refused = [line for line in complaints if "/w/acme/" in line]
    assert [line.split()[0] for line in refused] == ["403", "404"]
    complaints[:] = [line for line in complaints if line not in refused and "Failed to load resource" not in line]
