"""Evaluation suites in a real browser: made, read and compared, at every width, light and dark."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.urls import reverse
from playwright.sync_api import expect

from models_registry.models import ModelVersion
from tests.browser.accessibility import look_at
from tools.factories import (
    ArtifactFactory,
    DatasetSnapshotFactory,
    EvaluationSuiteFactory,
    SuiteScoreFactory,
    put_files,
    put_rows,
)
from training.evaluation.suites.scoring import Answer, summarise
from training.evaluation.suites.services import ANSWERS_FILE, save_score
from training.models import EvaluationSuite

LABELS = ("machine learning", "symbolic maths", "tables", "graphs of a name that goes on for rather long")


@pytest.fixture
def rows(scene: Any, store: Any) -> Any:
    texts = [f"Row {n}: " + "how do I draw this with two axes and a legend outside? " * 3 for n in range(120)]
    stored = put_rows(
        [{"id": str(n), "prompt": text, "options": LABELS, "answer": LABELS[n % 4]} for n, text in enumerate(texts)]
    )
    artifact = ArtifactFactory(workspace=scene.agent.workspace, kind="dataset", digest=stored.digest)
    return DatasetSnapshotFactory(agent=scene.agent, name="Questions of March", rows=120, artifact=artifact)


@pytest.fixture
def scores(scene: Any, rows: Any) -> list[Any]:
    """Both versions on one suite; the newer one is better, and has forgotten a label."""
    suite = EvaluationSuiteFactory(agent=scene.agent, name="Questions of March", dataset=rows, slice_by="group")
    versions = ModelVersion.objects.filter(registered_model=scene.agent.registered_model).order_by("number")
    found = []
    for version, wrong in zip(versions, ((2, 3, 4), (9, 2, 40)), strict=True):
        answers = []
        for n in range(120):
            hit = n % wrong[n % 3] > 0
            action = LABELS[(n if hit else n + 1) % 4]
            sure = 0.35 + (n * 7 % 60) / 100
            answers.append(Answer(str(n), f"g{n // 3}", f"shelf {n % 3}", LABELS[n % 4], action, sure, float(hit)))
        lines = "".join(msgspec.json.encode(one).decode() + "\n" for one in answers)
        stored = put_files({ANSWERS_FILE: lines}, kind="dataset")
        score = SuiteScoreFactory.build(
            suite=suite, workspace=suite.workspace, version=None, rows=120,
            answers=ArtifactFactory(workspace=suite.workspace, kind="dataset", digest=stored.digest),
            scores=summarise(answers, valid_share=0.98, free_rows=100),
        )  # fmt: skip
        found.append(save_score(score, version))
    return found


def test_pages_of_suites_fit_and_are_accessible(
    tab: Any, owner: Any, scene: Any, scores: list[Any], log_in: Any
) -> None:
    slug = scene.agent.workspace.slug
    log_in(tab, owner)
    found: list[str] = []
    for name, path in (
        ("suites", reverse("pages:suites", args=[slug])),
        ("suite-form", reverse("pages:suite-new", args=[slug])),
        ("suite", reverse("pages:suite", args=[slug, scores[0].suite_id])),
        ("suite-score", reverse("pages:suite-score", args=[slug, scores[1].id])),
        ("version-with-suites", reverse("pages:version", args=[slug, scores[1].version_id])),
    ):
        tab.goto(path)
        found += look_at(tab, name)
    assert found == []


def test_a_suite_is_made_and_two_versions_are_compared(
    tab: Any, owner: Any, scene: Any, rows: Any, scores: list[Any], log_in: Any
) -> None:
    slug = scene.agent.workspace.slug
    log_in(tab, owner).goto(reverse("pages:dataset", args=[slug, rows.id]))
    tab.get_by_role("link", name="Create a suite").click()
    tab.get_by_label("Name").fill("Again")
    tab.get_by_role("button", name="Create suite").click()
    expect(tab.get_by_text("The suite is ready.")).to_be_visible()
    assert EvaluationSuite.objects.filter(name="Again", dataset=rows).exists()
    tab.goto(reverse("pages:suite-score", args=[slug, scores[0].id]))
    expect(tab.get_by_role("columnheader", name="Difference, paired")).to_have_count(0)
    tab.get_by_label("Compare with").select_option(str(scores[1].version_id))
    tab.get_by_role("button", name="Compare").click()
    expect(tab.get_by_role("columnheader", name="Difference, paired")).to_be_visible()
