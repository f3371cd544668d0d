"""The gate by the log: which decisions it may use, and what it says of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models_registry.models import ModelVersion
from tools.factories import (
    OPTIONS,
    AgentVersionFactory,
    ArtifactFactory,
    DatasetItemFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    ModelVersionFactory,
    RewardFactory,
    TrainingRunFactory,
)
from tools.factories.training import put_rows
from training.engine.spec.run_spec import is_held_back
from training.evaluation.log_gate import (
    LOG_FILE,
    LoggedDecision,
    estimate_from_log,
    judge_by_log,
    remove_log,
    write_log,
)
from training.models import DatasetKind, TrainingRun
from training.runs.defaults.values import choose_settings


def log_of(count: int, *, epsilon: float = 0.2, groups: int = 10_000) -> list[LoggedDecision]:
    """A policy that is right in about half of its decisions; a right action earns 0.9, another 0.1 on average."""
    rng = random.Random(7)
    rows = []
    for number in range(count):
        right = OPTIONS[number % 3]
        policy = [(1 - epsilon) * (0.5 if option == right else 0.25) + epsilon / 3 for option in OPTIONS]
        action = rng.choices(OPTIONS, policy)[0]
        reward = float(rng.random() < (0.9 if action == right else 0.1))
        rows.append(
            LoggedDecision(
                str(number), f"g{number % groups}", tuple(OPTIONS), action, policy[OPTIONS.index(action)], epsilon,
                reward, None, "rules",
            )
        )  # fmt: skip
    return rows


def thoughts_of(count: int, *, sure: float) -> list[np.ndarray]:
    """A model that gives `sure` to the right option."""
    return [np.where(np.arange(3) == number % 3, sure, (1 - sure) / 2) for number in range(count)]


def test_a_better_model_passes_a_worse_one_shows_harm_and_a_short_log_refuses() -> None:
    rows = log_of(2_000)
    better, worse = thoughts_of(2_000, sure=0.8), thoughts_of(2_000, sure=0.1)
    gate = estimate_from_log(rows, better, better)
    assert gate.passed and gate.refusals == ()
    assert gate.difference.low < 0.8 * (0.8 - 0.5 * 0.8 - 0.2 / 3) < gate.difference.high
    harm = estimate_from_log(rows, worse, worse)
    assert harm.refusals == () and harm.difference.high < 0
    short = estimate_from_log(rows[:150], better[:150], better[:150])
    assert not short.passed and "are worth" in short.refusals[0]


def test_guesses_from_the_model_narrow_the_interval() -> None:
    rows, better = log_of(2_000), thoughts_of(2_000, sure=0.8)
    found = estimate_from_log(rows, better, better).estimates
    width = {name: getattr(found, name).high - getattr(found, name).low for name in ("ips", "doubly_robust")}
    assert width["doubly_robust"] < 0.75 * width["ips"]


def test_long_logs_keep_a_tenth_for_the_gate() -> None:
    told = [choose_settings("posterior", root="tiny", rows=rows, agent_version=None) for rows in (4_999, 5_000)]
    assert ["held_back" in one for one in told] == [False, True] and told[1]["held_back"] == 0.1
    assert "held_back" not in choose_settings("pretrain", root="tiny", rows=9_000, agent_version=None)


def test_one_group_is_refused() -> None:
    rows, better = log_of(300, groups=1), thoughts_of(300, sure=0.8)
    assert "one group" in estimate_from_log(rows, better, better).refusals[-1]


@pytest.mark.django_db
class TestInTheLedger:
    @pytest.fixture
    def run(self, agent: Any, store: Path) -> TrainingRun:
        AgentVersionFactory(agent=agent, temperature=1.0, epsilon=0.1)
        dataset = DatasetSnapshotFactory(agent=agent, kind=DatasetKind.LABELLED)
        return TrainingRunFactory(agent=agent, dataset=dataset)  # type: ignore[no-any-return]

    def decide(self, run: TrainingRun, count: int = 1, **fields: Any) -> list[str]:
        made = []
        for _ in range(count):
            decision = DecisionFactory(agent=run.agent, **{"epsilon": 0.2, **fields})
            RewardFactory(decision=decision)
            made.append(str(decision.id))
        return made

    def look(self, run: TrainingRun, folder: Path) -> set[str]:
        (folder / "data").mkdir(exist_ok=True)
        return {row.id for row in write_log(run, folder)}

    def test_only_explored_rewarded_decisions_that_nothing_in_its_ancestry_learnt_from(
        self, run: TrainingRun, tmp_path: Path
    ) -> None:
        kept = self.decide(run, 3)
        learnt, replayed, by_parent = (self.decide(run)[0] for _ in range(3))
        self.decide(run, epsilon=0.01)
        self.decide(run, epsilon=None)
        self.decide(run, propensity=None)
        self.decide(run, state={"other": "field"})  # its prompt cannot be rendered
        DecisionFactory(agent=run.agent, epsilon=0.2)  # without a reward
        parent = ModelVersionFactory(registered_model=run.agent.registered_model)
        first = TrainingRunFactory(
            agent=run.agent, dataset=DatasetSnapshotFactory(agent=run.agent), produced_version=parent,
            state="succeeded", finished_at=run.created_at,
        )  # fmt: skip
        run.base_version, run.base_model = parent, ""
        run.replay = DatasetSnapshotFactory(agent=run.agent)
        run.save()
        for dataset, decision in ((run.dataset, learnt), (run.replay, replayed), (first.dataset, by_parent)):
            DatasetItemFactory(dataset=dataset, decision_id=decision, decision=None)
        assert self.look(run, tmp_path) == set(kept)
        rows = [json.loads(line) for line in (tmp_path / LOG_FILE).read_text().splitlines()]
        assert {row["id"] for row in rows} == set(kept)
        assert "note" in rows[0]["prompt"] and "reward" not in rows[0]

    def test_what_was_held_back_may_be_used(self, agent: Any, run: TrainingRun, tmp_path: Path) -> None:
        ids = self.decide(run, 20)
        rows = [
            {"id": pk, "prompt": "p", "options": list(OPTIONS), "action": OPTIONS[0], "propensity": 0.5, "reward": 1.0}
            for pk in ids
        ]
        stored = put_rows(rows)
        artifact = ArtifactFactory(workspace=agent.workspace, kind="dataset", digest=stored.digest)
        spec = agent.reward_specs.first()
        logs = DatasetSnapshotFactory(agent=agent, kind=DatasetKind.LOGGED, reward_spec=spec, artifact=artifact)
        for pk in ids:
            DatasetItemFactory(dataset=logs, decision_id=pk, decision=None)
        run.dataset = logs
        assert self.look(run, tmp_path) == set()
        run.spec = {**run.spec, "held_back": 0.4}
        kept = {row["id"] for row in rows if is_held_back(row["id"], None, 0.4)}
        assert self.look(run, tmp_path) == kept and 0 < len(kept) < 20

    def test_the_verdict_names_what_acted_and_why_it_cannot_answer(self, run: TrainingRun, tmp_path: Path) -> None:
        champion: ModelVersion = ModelVersionFactory(registered_model=run.agent.registered_model)
        self.decide(run, 4, policy_name=None, model_version=champion)
        (tmp_path / "data").mkdir()
        log = write_log(run, tmp_path)
        told = tmp_path / "log.jsonl"
        told.write_text("".join(json.dumps({"id": row.id, "p": [0.5, 0.3, 0.2]}) + "\n" for row in log))
        verdict = judge_by_log(run, log, told)
        assert (verdict.kind, verdict.passed, verdict.against) == ("off_policy", False, champion)
        assert "are worth" in verdict.refusals[0]
        assert verdict.details["acted"] == {str(champion): 4} and verdict.details["epsilon"] == 0.1
        assert set(verdict.details["estimates"]) == {"logged", "doubly_robust", "snips", "ips", "direct"}
        self.decide(run)
        verdict = judge_by_log(run, write_log(run, tmp_path), told)
        assert verdict.details["rows"] == 4  # the engine was not asked about the fifth
        verdict.version = champion
        verdict.save()

    def test_what_a_budget_bound_is_not_estimated_from_and_the_new_version_keeps_to_it(
        self, run: TrainingRun, tmp_path: Path
    ) -> None:
        kept = self.decide(run, 2)
        version = AgentVersionFactory(agent=run.agent, number=9, temperature=1.0, epsilon=0.1, exploration_budget=20)
        self.decide(run, 2, agent_version=version)  # a λ of 1: ε is as large as elsewhere
        assert self.look(run, tmp_path) == set(kept)
        log = write_log(run, tmp_path)
        told = tmp_path / "log.jsonl"
        told.write_text("".join(json.dumps({"id": row.id, "p": [0.5, 0.3, 0.2]}) + "\n" for row in log))
        verdict = judge_by_log(run, log, told)
        assert verdict.details["rows"] == 2 and verdict.details["exploration_budget"] == 20
        assert choose_settings("posterior", root="tiny", rows=100, agent_version=version)["serving"] == {
            "temperature": 1.0, "epsilon": 0.1, "exploration_budget": 20,
        }  # fmt: skip

    def test_without_decisions_it_says_so(self, run: TrainingRun) -> None:
        verdict = judge_by_log(run, [], None)
        assert not verdict.passed and verdict.estimate is None
        assert verdict.refusals[0].startswith("There are no decisions with a reward")

    def test_the_rows_are_gone_afterwards(self, run: TrainingRun, settings: Any) -> None:
        remove_log(run.id)  # nothing there: nothing happens
        folder = settings.RUNS / str(run.id)
        (folder / "data").mkdir(parents=True)
        write_log(run, folder)
        remove_log(run.id)
        assert not (folder / LOG_FILE).exists()
