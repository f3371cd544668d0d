"""Versions that are tried at the same time, and units that keep one, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from models_registry.experiments.promotion import stop_experiment
from models_registry.models import ExperimentGroup, Holdout
from models_registry.versions.services import get_champion
from tests.browser.accessibility import look_at
from tests.models_registry.experiment_units import feed
from tools.factories import ModelVersionFactory


@pytest.mark.usefixtures("store")
def test_two_versions_are_chosen_and_stand_beside_each_other(
    tab: Any, owner: Any, by: Any, scene: Any, log_in: Any
) -> None:
    slug, version = scene.agent.workspace.slug, scene.version
    stop_experiment(by=by, experiment=scene.experiment, reason="enough")
    more = ModelVersionFactory(registered_model=version.registered_model, workspace=version.workspace)
    log_in(tab, owner).goto(reverse("pages:version-try", args=[slug, version.id]))
    tab.get_by_label(str(more)).check()
    tab.get_by_label("Reason").fill("two ways to train")
    found = look_at(tab, "experiment-form")
    tab.get_by_role("button", name="Start experiment").click()
    expect(tab.get_by_text("The experiments have started.")).to_be_visible()
    group = ExperimentGroup.objects.get()
    rates = ({"control": 0.5, "treatment": 0.6}, {"control": 0.6, "treatment": 0.5})
    for experiment, rate in zip(group.experiments.order_by("lane_low"), rates, strict=True):
        feed(experiment, rate, batches=4)
    tab.reload()
    expect(tab.get_by_role("row")).to_have_count(1 + 2)
    found += look_at(tab, "experiment-group")
    tab.get_by_role("link", name=group.experiments.order_by("lane_low")[0].name).click()
    expect(tab.get_by_text("50.0% of the units")).to_be_visible()
    assert found == []


def test_a_holdout_is_started_and_shows_its_weeks(tab: Any, owner: Any, by: Any, scene: Any, log_in: Any) -> None:
    slug, champion = scene.agent.workspace.slug, get_champion(scene.agent.registered_model)
    stop_experiment(by=by, experiment=scene.experiment, reason="enough")
    log_in(tab, owner).goto(reverse("pages:version", args=[slug, champion.id]))
    tab.get_by_role("link", name="Hold out").click()
    tab.get_by_label("Reason").fill("what a month is worth")
    found = look_at(tab, "holdout-form")
    tab.get_by_role("button", name="Start holdout").click()
    expect(tab.get_by_role("heading", name="It is too early to tell: leave it running.")).to_be_visible()
    weeks = {"0": ([900, 520.0, 380.0], [100, 50.0, 33.0]), "1": ([900, 560.0, 410.0], [95, 46.0, 31.0])}
    weeks["whole"] = ([1700, 1010.0, 725.0], [190, 93.0, 62.0])
    figures = {name: {"served": served, "held": held} for name, (served, held) in weeks.items()}
    Holdout.objects.update(figures=figures, counted_at=timezone.now())
    tab.reload()
    expect(tab.get_by_role("row")).to_have_count(1 + 3)
    found += look_at(tab, "holdout")
    tab.get_by_role("link", name="Holdouts").click()
    found += look_at(tab, "holdouts")
    assert found == []
