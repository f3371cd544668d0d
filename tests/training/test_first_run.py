"""The first run as its form offers it, with the real engine, starts and ends well.

The rest of the loop by its buttons: tests/browser/test_a_day_in_browser.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from jobs.runner import run_job
from tests.engine_task import labelled
from training.datasets.snapshots import import_labelled
from training.models import TrainingRun

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_labels_become_a_model_by_what_the_form_offers(
    agent: Any, by: Any, workspace: Any, admin: Any, page_client: Any, store: Path
) -> None:
    rows = labelled(60, 1)
    import_labelled(by=by, agent=agent, name="labels", rows=rows[:40])
    import_labelled(by=by, agent=agent, name="held-out rows", rows=rows[40:])
    client, path = page_client(admin), reverse("pages:run-start", args=[workspace.slug])
    form = client.get(path).context["form"]
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    assert client.post(path, {**shown, "epochs": 1}).status_code == 302  # less than the recipe's
    run_job(Job.objects.get(state="queued").id)
    assert str(TrainingRun.objects.get(state="succeeded").produced_version) == "filer:1"
