"""Synthetic negatives: only where they are asked for, marked in row, statistics, manifest and on the page."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    FeedbackFactory,
    LabelFactory,
    RewardSpecFactory,
)
from training.datasets.freezing import start_rebuild
from training.datasets.snapshots import snapshot_ledger
from training.engine.data.reading import read_rows
from training.engine.rows.types import Logged, Preference, Text
from training.models import DatasetSnapshot
from training.rows.negatives import Negatives

pytestmark = pytest.mark.django_db


def rows_file(dataset: DatasetSnapshot) -> Path:
    return artifact_path(dataset.artifact.digest) / "rows.jsonl"


def decide(agent: Any, action: str, verdict: str, **fields: Any) -> Any:
    decision = DecisionFactory(agent=agent, action=action, options=None, **fields)
    FeedbackFactory(decision=decision, value=verdict)
    return decision


def frozen(job: Any) -> DatasetSnapshot:
    run_job(job)
    done = Job.objects.get(id=job)
    assert done.state == "succeeded" and done.result, done.error
    return DatasetSnapshot.objects.get(id=done.result["dataset"])


def asked_of(api: Any, **fields: Any) -> DatasetSnapshot:
    answer = api("admin").post("datasets", {"agent": "filer", "name": "n", **fields})
    assert answer.status_code == 202, answer.content
    return frozen(answer.json()["id"])


def test_a_right_choice_gets_another_option_as_wrong(
    agent: Any, by: Any, api: Any, store: Path, admin: Any, page_client: Any
) -> None:
    right = decide(agent, "travel", "confirmed", unit=None)
    decide(agent, "finance", "corrected")
    calculate_rewards(current_reward_spec(agent))
    plain = asked_of(api)
    assert (plain.rows, plain.statistics.get("synthetic"), "synthetic_negatives" in plain.query) == (2, None, False)
    dataset = asked_of(api, synthetic_negatives=True)
    [negative] = [row for row in read_rows(rows_file(dataset), Logged) if row.synthetic]
    assert (negative.id, negative.reward, negative.propensity) == (f"{right.id}/negative", 0.0, None)
    assert negative.action in {"finance", "health"} and negative.group == str(right.id)
    assert (dataset.rows, dataset.items.count(), dataset.statistics["synthetic"]) == (3, 2, 1)
    manifest = dataset.artifact.meta
    assert manifest["query"]["synthetic_negatives"] is True and manifest["counts"]["synthetic"] == 1
    page = page_client(admin).get(f"/w/{agent.workspace.slug}/datasets/{dataset.id}").content.decode()
    assert "Synthetic negatives" in page
    form = page_client(admin).get(f"/w/{agent.workspace.slug}/datasets/new?synthetic_negatives=on").content.decode()
    assert 'type="hidden" name="synthetic_negatives"' in form
    # A rebuild asks the same, and finds the same.
    again = frozen(start_rebuild(by=by, dataset=dataset).id)
    assert again.artifact.digest == dataset.artifact.digest
    refused = api("admin").post(
        "datasets", {"agent": "filer", "name": "n", "kind": "labelled", "synthetic_negatives": True}
    )
    assert refused.status_code == 400 and "synthetic_negatives" in refused.content.decode()
    assert DatasetSnapshot.objects.count() == 3


def test_pairs_of_choices_also_prefer_the_right_option_to_one_that_nobody_chose(
    agent: Any, api: Any, store: Path
) -> None:
    confirmed: Any = DecisionFactory(agent=agent, action="travel", options=None)
    corrected: Any = DecisionFactory(agent=agent, action="travel", options=None)
    LabelFactory(decision=confirmed)
    LabelFactory(decision=corrected, verdict="corrected", corrected_action="finance")
    assert asked_of(api, kind="preferences").rows == 1
    dataset = asked_of(api, kind="preferences", synthetic_negatives=True)
    pairs = {row.id: (row.chosen, row.rejected, row.synthetic) for row in read_rows(rows_file(dataset), Preference)}
    assert pairs[str(corrected.id)] == ("finance", "travel", False)
    assert pairs[f"{corrected.id}/negative"] == ("finance", "health", True)
    chosen, rejected, made_up = pairs[f"{confirmed.id}/negative"]
    assert (chosen, made_up, len(pairs)) == ("travel", True, 3) and rejected in {"finance", "health"}


def test_a_right_text_gets_what_answered_another_prompt_of_the_same_part(workspace: Any, by: Any, store: Path) -> None:
    agent: Any = AgentFactory(workspace=workspace, slug="writer", kind="CUSTOM")
    AgentVersionFactory(agent=agent, action_space="text", options=None)
    RewardSpecFactory(agent=agent, signal="verdict")
    for number, verdict in enumerate(["confirmed", "confirmed", "corrected", "confirmed"]):
        decide(agent, f"Dear {number}", verdict, state={"text": "Write" if number == 1 else f"write{number or ''}"})
    calculate_rewards(current_reward_spec(agent))
    dataset = snapshot_ledger(by=by, agent=agent, name="n", kind="text", negatives=True)
    made_up = [row for row in read_rows(rows_file(dataset), Text) if row.synthetic]
    # The first and the second answer the same prompt, and the third was wrong: only the fourth has another one.
    assert [(row.prompt, row.reward, row.right) for row in made_up] == [("write3", 0.0, 0.0)]
    assert made_up[0].completion in {"Dear 0", "Dear 1"}


def test_items_of_rankings_and_choices_without_another_option_get_none() -> None:
    row = {"id": "1", "prompt": "p", "options": ["a", "b"], "action": "a", "reward": 1.0}
    assert Negatives().make(row | {"slate": {"id": "d", "item": "a"}}) is None
    assert Negatives().make(row | {"options": ["a"]}) is None
    assert Negatives().make(row | {"reward": None}) is None


def test_another_version_of_the_reward_spec_can_be_asked_for(agent: Any, api: Any, store: Path) -> None:
    decide(agent, "travel", "confirmed")
    first = current_reward_spec(agent)
    calculate_rewards(first)
    RewardSpecFactory(agent=agent, number=first.number + 1)
    told = json.loads(_made("--reward-spec", str(first.number)))
    assert DatasetSnapshot.objects.get(id=told["dataset"]).reward_spec == first
    assert asked_of(api, reward_spec=first.number).reward_spec == first
    refused = api("admin").post("datasets", {"agent": "filer", "name": "n", "reward_spec": 9})
    assert refused.status_code == 400 and "version 9 does not exist" in refused.content.decode()
    assert DatasetSnapshot.objects.count() == 2


def test_the_page_previews_by_that_version(agent: Any, store: Path, admin: Any, page_client: Any) -> None:
    decide(agent, "travel", "confirmed")
    first = current_reward_spec(agent)
    calculate_rewards(first)
    RewardSpecFactory(agent=agent, number=first.number + 1)
    path = f"/w/{agent.workspace.slug}/datasets/new?"
    old = page_client(admin).get(f"{path}reward_spec={first.number}").content.decode()
    assert f"reward spec version {first.number}" in old and "No decision qualifies yet" not in old
    assert "No decision qualifies yet" in page_client(admin).get(path).content.decode()
    assert page_client(admin).get(f"{path}reward_spec=9").status_code == 404


def _made(*flags: str) -> str:
    out = StringIO()
    call_command("create_dataset", "--agent", "filer", "--name", "n", "--json", *flags, stdout=out)
    return out.getvalue()
