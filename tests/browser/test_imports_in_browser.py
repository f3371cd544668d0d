"""Imports in a real browser: a file is checked, looked at and imported; the widths and the dark."""

from __future__ import annotations

import json
from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from jobs.models import Job
from jobs.runner import run_job
from tests.browser.accessibility import look_at

ROW = {"id": "1", "prompt": "Flights to Oslo on 3 May", "options": ["travel", "health"], "answer": "travel"}


def test_a_file_is_checked_looked_at_and_imported_and_every_page_fits(
    tab: Any, admin: Any, agent: Any, workspace: Any, log_in: Any, store: Any
) -> None:
    tab.clock.install()
    log_in(tab, admin).goto(reverse("pages:imports", args=[workspace.slug]))
    tab.get_by_role("link", name="Import a file").first.click()
    expect(tab.get_by_label("File", exact=True)).to_be_visible()
    found = look_at(tab, "import-new")
    content = json.dumps(ROW).encode()
    file = {"name": "rows.jsonl", "mimeType": "application/json", "buffer": content}
    tab.get_by_label("File", exact=True).set_input_files(file)
    tab.get_by_label("Name of the dataset").fill("gold")
    tab.get_by_role("button", name="Check the file").click()
    expect(tab.get_by_role("heading", name="1 labelled row")).to_be_visible()
    found += look_at(tab, "import-check")
    tab.get_by_role("button", name="Import", exact=True).click()
    expect(tab.get_by_text("Waiting for a worker")).to_be_visible()
    assert run_job(Job.objects.get().id) == "succeeded"
    tab.clock.fast_forward(2_000)
    expect(tab.get_by_text("succeeded")).to_be_visible()
    found += look_at(tab, "import")
    tab.goto(reverse("pages:imports", args=[workspace.slug]))
    found += look_at(tab, "imports")
    assert found == []
