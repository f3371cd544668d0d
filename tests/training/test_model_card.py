"""The card says what is stored of a version, and what should keep people from trusting it further."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from models_registry.models import ModelVersion
from tools import factories
from training.models import DatasetSnapshot, Evaluation
from training.supervision.cards import card_of_export, card_of_run
from training.supervision.model_card import write_card

pytestmark = pytest.mark.django_db


@pytest.fixture
def version(agent: Any) -> ModelVersion:
    """Trained from another one: measured, judged by both gates, with a suite."""
    parent = factories.ModelVersionFactory(
        registered_model=agent.registered_model,
        artifact__meta={"base_model": "Qwen/Qwen2.5-0.5B-Instruct"},
    )
    made = factories.ModelVersionFactory(
        registered_model=parent.registered_model,
        parent=parent,
        base=parent,
        artifact__kind="adapter",
        artifact__meta={"base_model": "Qwen/Qwen2.5-0.5B-Instruct"},
        method="reward_weighted",
    )
    run = factories.TrainingRunFactory(
        agent=agent,
        method="reward_weighted",
        base_version=parent,
        base_model="",
        produced_version=made,
        state="succeeded",
        finished_at=timezone.now(),
        spec={"method": "reward_weighted", "optimiser": {"steps": 77}, "checkpoint_every_seconds": 30},
    )
    DatasetSnapshot.objects.filter(id=run.dataset_id).update(rows=1234, statistics={"actions": {"work": 7, "home": 5}})
    factories.EvaluationFactory(run=run, version=made, against=parent, rows=150, unanswered=3)
    factories.GateVerdictFactory(version=made, against=parent)
    factories.GateVerdictFactory(
        version=made, against=None, kind="off_policy", passed=False, refusals=["Too few decisions."],
        estimate=None, low=None, high=None,
    )  # fmt: skip
    suite = factories.EvaluationSuiteFactory(agent=agent, name="hard ones")
    factories.SuiteScoreFactory(suite=suite, version=made, learnt=True)
    return made


def facts(version: ModelVersion) -> dict[str, dict[str, str]]:
    return {section.title: dict(section.facts) for section in write_card(version)}


def test_every_stored_fact_stands_on_the_card(version: ModelVersion) -> None:
    card = facts(version)
    run = version.produced_by
    assert card["Model"]["Base model"] == "Qwen/Qwen2.5-0.5B-Instruct"
    assert card["Model"]["Licence of the base"] == "Apache-2.0"
    assert card["Model"]["Lineage"] == "filer:2 ← filer:1"
    assert card["Training"]["Settings"] == "optimiser.steps 77"
    assert "Acted afresh, paid by" not in card["Training"]
    assert "1,234 labelled rows" in card["Data"]["Trained on"]
    assert card["Data"]["Trained on"].endswith(f"SHA-256 {run.dataset.artifact.digest}")
    assert card["Data"]["Rows by action"] == "work 7, home 5"
    assert card["Measured"]["Held-out accuracy"] == "50.0% [40.0%, 60.0%]"
    assert card["Measured"]["Held-out accuracy, difference to filer:1"] == "+50.0 points [+40.0, +60.0]"
    assert card["Measured"]["Accuracy on the suite hard ones"].endswith("which flatters it")
    assert card["Gate"]["Paired difference on held-out inputs, against filer:1"] == (
        "passed, difference +10.0 points [+5.0, +15.0]"
    )
    assert card["Gate"]["Estimate from logged decisions, against what acted"] == "could not answer: Too few decisions."


def test_the_limits_follow_from_the_facts(version: ModelVersion) -> None:
    def limits() -> str:
        [found] = [section for section in write_card(version) if section.title == "Limits"]
        return " ".join(value for _, value in found.facts)

    said = limits()
    for part in ("measured on 150 rows", "3 held-out rows were left out", "needs the weights of filer:1"):
        assert part in said
    assert "erased" not in said and "not measured" not in said
    Evaluation.objects.all().delete()
    version.gate_verdicts.all().delete()
    version = ModelVersion.objects.get(id=version.id)
    version.marked_at = timezone.now()
    said = limits()
    for part in ("It was not measured on held-out rows.", "No gate could judge it.", "were erased since"):
        assert part in said


def test_a_remote_model_has_a_card_too(workspace: Any) -> None:
    remote = factories.ModelVersionFactory(workspace=workspace, artifact=None, remote_name="gpt-4o-mini")
    card = facts(remote)
    assert card["Model"] == {
        "Kind": "Remote model",
        "Base model": "gpt-4o-mini",
        "Licence of the base": "unknown; its own terms apply",
    }


def test_page_and_export_show_it_and_the_run_s_readme_has_its_figures(
    version: ModelVersion, agent: Any, viewer: Any, page_client: Any
) -> None:
    factories.AgentVersionFactory(agent=agent, system_prompt="File notes.\nBe quick.")
    page = page_client(viewer).get(reverse("pages:version", args=[version.workspace.slug, version.id]))
    shown = page.content.decode()
    parity = {"equal_decisions": 0.9991, "decisions": 1000, "runtime": "transformers"}
    readme = card_of_export(version, "merged", {"parity": parity, "files": {}})["README.md"]
    assert "0.9991 of 1000 decisions are the same in transformers (parity.json)" in readme
    assert "- System prompt of filer v2: File notes.\n  Be quick.\n" in readme
    for part in ("Apache-2.0", "optimiser.steps 77", "System prompt of filer v2"):
        assert part in shown and part in readme
    for part in ("50.0% [40.0%, 60.0%]", "could not answer: Too few decisions."):
        assert part in readme and part not in shown  # the page has them in panels of their own
    assert shown.count(version.stored.digest) == 1
    assert "license: apache-2.0" in readme and "## Limits" in readme
    evaluation = Evaluation.objects.get()
    told = card_of_run(version.produced_by, kind="adapter", scores=evaluation.scores["trained"])["README.md"]
    assert "Held-out accuracy: 50.0% [40.0%, 60.0%]" in told
    assert version.produced_by.dataset.artifact.digest in told
