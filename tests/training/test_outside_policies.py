"""Decisions of an outside policy, sent by the API without propensity: every kind of agent learns and is measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from decisions.agents.services import create_notes_agents
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tests.once import made_once
from tests.training.engine.engine_world import engine
from tools.factories import AgentFactory, AgentVersionFactory, ModelVersionFactory, RewardSpecFactory
from training.datasets.snapshots import snapshot_ledger
from training.errors import InvalidRun
from training.models import DatasetSnapshot
from training.rows.selection import Filters
from training.runs.services import EnginePaths, RunPlan, check_plan, engine_spec

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),  # of transformers' own names
]
TOLD = ("a flood in the cellar", "a dripping tap", "dust on the shelf", "the gate squeaks")
SIDES = {"learnt": 6, "held": 4}
"""How many decisions of which unit."""


class Kind(NamedTuple):
    """`dataset`: the kind of its rows. `measured`, `unanswered`: held-out rows that say what was right, or do not."""

    state: Callable[[int], dict[str, Any]]
    action: Any
    dataset: str = "logged"
    method: str = "posterior"
    measured: int = 4
    unanswered: int = 0


def items(n: int, count: int) -> list[dict[str, str]]:
    return [{"id": f"i{place}", "title": f"{TOLD[(n + place) % 4]} {n}"} for place in range(count)]


STORED = {"integrationDecision": "INTEGRATE", "location": "Water", "suggestedContent": "The cellar is dry."}
WRITTEN = {"generatedContent": "Close the valve first, then call.", "sourceCitations": ["i0"]}
KINDS = {
    "FILER": Kind(
        lambda n: {"item": {"title": f"{TOLD[n % 4]} {n}"}},
        {"status": "TODO", "swimlane": "HOME", "priority": "LOW"},
        measured=2,
        unanswered=2,
    ),
    "PRIORITIZER": Kind(lambda n: {"todoItems": items(n, 3)}, {"recommended_item_id": "i1"}, measured=2, unanswered=2),
    "RANKER": Kind(lambda n: {"list": items(n, 3)}, ["i1", "i0"]),
    "LIBRARIAN": Kind(
        lambda n: {"newItem": {"title": f"{TOLD[n % 4]} {n}"}, "corpus": items(n, 3)},
        {"findings": [{"type": "RELATED", "relatedIds": ["i0", "i2"]}]},
        measured=4,
        unanswered=4,
    ),
    "STORER": Kind(
        lambda n: {"completedItem": {"title": f"{TOLD[n % 4]} {n}"}, "targetOpus": {"title": "House"}},
        STORED,
        "text",
        "kto",
        measured=2,
        unanswered=2,
    ),
    "RETRIEVER": Kind(
        lambda n: {"query": f"{TOLD[n % 4]} {n}", "relevantOpuses": items(n, 2)},
        WRITTEN,
        "text",
        "kto",
        measured=2,
        unanswered=2,
    ),
}


@pytest.fixture(scope="module")
def base() -> Path:
    """A model that can hardly do anything."""
    rows = [{"id": str(n), "prompt": told, "options": ["yes", "no"], "answer": "yes"} for n, told in enumerate(TOLD)]

    def make(folder: Path) -> None:
        tiny = {"hidden": 16, "vocabulary": 320, "layers": 1, "heads": 2, "key_value_heads": 1}
        spec = {"run_id": "base", "method": "pretrain", "base": {"tiny": tiny}, "optimiser": {"epochs": 1}}
        run_engine(folder / "run", spec | {"data": {"train": "train.jsonl"}}, train=rows)

    return made_once("hardly", make) / "run/attempts/1/model"


def run_engine(folder: Path, spec: dict[str, Any], **files: list[dict[str, Any]] | Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    for name, rows in files.items():
        path = folder / f"{name}.jsonl"
        if isinstance(rows, Path):
            shutil.copy(rows, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "spec.json").write_text(json.dumps(spec | {"threads": 1}))
    assert engine(folder) == 0
    result: dict[str, Any] = json.loads((folder / "attempts/1/result.json").read_text())
    return result


def rows_file(dataset: DatasetSnapshot) -> Path:
    return artifact_path(dataset.artifact.digest) / "rows.jsonl"


def make_agent(by: Any, name: str) -> Any:
    """The notes app's; RANKER is an agent of another app, whose actions are rankings."""
    if name != "RANKER":
        return next(one for one in create_notes_agents(by=by) if one.kind == name)
    agent = AgentFactory(workspace=by.workspace, slug="ranker", kind="CUSTOM")
    AgentVersionFactory(agent=agent, action_space="ranking", options=None, prompt_template="First? {{ list }}")
    return agent


@pytest.fixture
def planned(by: Any, store: Path, api: Any) -> Callable[..., tuple[Any, RunPlan]]:
    """`planned(name, wrong)`: the agent, and a run that learns from its decisions and is measured on others. Half of
    them were right; with `wrong` all that it is measured on were wrong."""

    def make(name: str, *, wrong: bool = False) -> tuple[Any, RunPlan]:
        kind, agent, client = KINDS[name], make_agent(by, name), api("admin")
        RewardSpecFactory(agent=agent, signal="verdict")
        for unit, count in SIDES.items():
            for number in range(count):
                asked: dict[str, Any] = {"agent": agent.slug, "state": kind.state(number), "action": kind.action}
                if name == "RANKER":
                    asked["options"] = ["i0", "i1", "i2"]
                told = client.post("decisions", asked | {"policy_name": "gpt-of-yesterday", "unit": unit})
                assert told.status_code == 201, told.json()
                right = number % 2 and not (wrong and unit == "held")
                verdict = {"metric": "verdict", "value": "confirmed" if right else "corrected"}
                given = client.post("feedback", verdict | {"decision_id": told.json()["kept"][0]["id"]})
                assert given.status_code == 201
        calculate_rewards(current_reward_spec(agent))
        learnt, held = (
            snapshot_ledger(by=by, agent=agent, name=unit, kind=kind.dataset, filters=Filters(unit=unit))
            for unit in SIDES
        )
        settings = {"optimiser": {"epochs": 1, "batch_size": 4}, "max_prompt_tokens": 160, "posterior": {"folds": 2}}
        settings["evaluate"] = {"free_rows": 0}
        version: Any = ModelVersionFactory(workspace=by.workspace)
        return agent, RunPlan(kind.method, learnt, base_version=version, heldout=held, settings=settings)

    return make


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.dataset == "text"])
def test_rejected_texts_are_no_answers_to_be_measured_on(name: str, planned: Any) -> None:
    agent, plan = planned(name, wrong=True)
    with pytest.raises(InvalidRun) as refused:
        check_plan(agent, plan)
    assert [(fault.field, fault.reason) for fault in refused.value.faults] == [
        ("heldout", "none of its 4 texts is known to be right")
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("FILER", "6 of its rows have no propensity, and only 6 have a reward"),
        ("RANKER", "18 of its rows have no propensity, and 18 are items of rankings"),
        ("STORER", "ppo cannot learn from text rows"),
    ],
)
@pytest.mark.quick_cases(1)
def test_ppo_says_what_it_lacks(name: str, reason: str, planned: Any) -> None:
    """With enough choices of any rewards that differ, it acts afresh."""
    agent, plan = planned(name)
    plan = replace(plan, method="ppo")
    with pytest.raises(InvalidRun) as refused:
        check_plan(agent, plan)
    assert [(fault.field, fault.reason) for fault in refused.value.faults] == [("dataset", reason)]
    if name == "FILER":
        plan.dataset.statistics |= {"rewarded": 60, "fewer_rewarded": 4}
        with pytest.raises(InvalidRun) as alike:
            check_plan(agent, plan)
        assert alike.value.faults[0].reason.endswith("and all rewards but 4 are alike")
        plan.dataset.statistics |= {"rewarded": 60, "fewer_rewarded": 5}
        assert check_plan(agent, plan)["method"] == "ppo"


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_an_agent_learns_and_is_measured(name: str, planned: Any, base: Path, tmp_path: Path) -> None:
    kind, (agent, plan) = KINDS[name], planned(name)
    assert agent.decisions.filter(propensity=None, model_version=None).count() == sum(SIDES.values())
    learnt, held = plan.dataset, plan.heldout
    assert held is not None
    paths = EnginePaths(base={"path": str(base)}, train="train.jsonl", heldout="heldout.jsonl")
    spec = engine_spec(check_plan(agent, plan), plan, run_id="outside", paths=paths)
    result = run_engine(tmp_path / "run", spec, train=rows_file(learnt), heldout=rows_file(held))
    assert result["output"] == "model" and result["steps"] > 0
    assert {score["rows"] for score in result["scores"].values()} == {kind.measured}
    assert len(result["scores"]) == 2 and result["unanswered"] == kind.unanswered
    warned = " ".join(result["warnings"])
    assert ("do not name the right action" in warned) == bool(kind.unanswered)
    # There was room for the whole of each text; what a model without any practice writes does not come to an end.
    assert "were left out" not in warned
    assert ("answers of the base model were cut" in warned) == (kind.dataset == "text")
    if kind.dataset == "text":
        assert result["scores"]["trained"]["valid_share"] is not None
        # What people rejected is in the predictions of no model, so repeating it counts as nothing.
        rejected = {row["id"] for row in map(json.loads, rows_file(held).read_text().splitlines()) if row["right"] == 0}
        lines = (tmp_path / "run/attempts/1/predictions.jsonl").read_text().splitlines()
        assert len(rejected) == 2 and not rejected & {json.loads(line)["id"] for line in lines}
