"""Datasets of every shape of action and of outside policies: which rows they hold, and what learns from them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.agents.choices import choices_of
from decisions.agents.services import create_notes_agents
from decisions.models import Agent
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    EpisodeFactory,
    FeedbackFactory,
    LabelFactory,
    ModelVersionFactory,
    RewardSpecFactory,
)
from training.datasets.of_labels import snapshot_labels
from training.datasets.preview import preview_datasets
from training.datasets.snapshots import snapshot_ledger
from training.engine.data.reading import read_rows
from training.engine.rows.slates import find_rankings
from training.engine.rows.types import Labelled, Logged, Text
from training.errors import EmptyDataset, InvalidRun
from training.models import DatasetSnapshot, TrainingRun
from training.rows.labels import LabelQuestion
from training.rows.selection import Filters
from training.rows.splitting import Relations
from training.runs.services import EnginePaths, RunPlan, check_plan, engine_spec, start_run
from workspaces.models import AuditEntry
from workspaces.storage.ids import uuid7, uuid7_of

pytestmark = pytest.mark.django_db
WHERE = {"status": "TODO", "swimlane": "HOME", "priority": "LOW"}
HOME = '{"priority":"LOW","status":"TODO","swimlane":"HOME"}'


def rows_file(dataset: DatasetSnapshot) -> Path:
    return artifact_path(dataset.artifact.digest) / "rows.jsonl"


def rows_of(dataset: DatasetSnapshot) -> list[dict[str, Any]]:
    return [json.loads(line) for line in rows_file(dataset).read_text().splitlines()]


def decide(agent: Any, action: Any, verdict: str = "confirmed", **fields: Any) -> Any:
    """By an outside policy that told no propensity, with a verdict."""
    decision = DecisionFactory(agent=agent, **{"action": action, "options": None, "propensity": None} | fields)
    FeedbackFactory(decision=decision, value=verdict)
    return decision


def reward(agent: Any) -> None:
    calculate_rewards(current_reward_spec(agent))


@pytest.fixture
def filer(by: Any, store: Path) -> Any:
    """The notes app's, with its own structured actions."""
    agent = next(one for one in create_notes_agents(by=by) if one.kind == "FILER")
    RewardSpecFactory(agent=agent, signal="verdict")
    return agent


def writing(workspace: Any, space: str = "text") -> Any:
    agent = AgentFactory(workspace=workspace, slug="writer", kind="CUSTOM")
    AgentVersionFactory(agent=agent, action_space=space, options=None)
    RewardSpecFactory(agent=agent, signal="verdict")
    return agent


class TestOutside:
    def test_decisions_of_an_outside_policy_train_where_no_propensity_is_needed(
        self, agent: Any, by: Any, store: Path
    ) -> None:
        told = decide(agent, "travel")
        decide(agent, "finance", "corrected")
        known = decide(agent, "health", propensity=0.5)
        reward(agent)
        dataset = snapshot_ledger(by=by, agent=agent, name="outside")
        rows = {row["id"]: row for row in rows_of(dataset)}
        # Options that were not sent with the decision are those of the agent's version.
        assert rows[str(told.id)]["options"] == ["finance", "travel", "health"]
        assert (rows[str(told.id)]["propensity"], rows[str(known.id)]["propensity"]) == (None, 0.5)
        assert len(read_rows(rows_file(dataset), Logged)) == dataset.rows == 3
        counts = dataset.statistics
        assert (counts["without_propensity"], counts["right"], counts["wrong"]) == (2, 2, 1)
        assert counts["actions"] == {"finance": 1, "health": 1, "travel": 1}
        base: Any = ModelVersionFactory(registered_model=agent.registered_model, workspace=agent.workspace)
        settings = {"posterior": {"folds": 2}}
        spec = check_plan(agent, RunPlan("posterior", dataset, base_version=base, settings=settings))
        assert spec["posterior"] == {"folds": 2}
        audited = AuditEntry.objects.count()
        with pytest.raises(InvalidRun) as refused:
            start_run(by=by, agent=agent, plan=RunPlan("reward_weighted", dataset, base_version=base))
        assert [(fault.field, fault.reason) for fault in refused.value.faults] == [
            ("dataset", "2 of its rows have no propensity")
        ]
        assert not TrainingRun.objects.exists() and not Job.objects.exists()
        assert AuditEntry.objects.count() == audited
        # Those that have one can be asked for alone.
        only = snapshot_ledger(by=by, agent=agent, name="known", filters=Filters(with_propensity=True))
        assert (only.rows, only.items.get().decision_id) == (1, known.id)
        assert check_plan(agent, RunPlan("reward_weighted", only, base_version=base))

    def test_a_dataset_of_one_outcome_says_so(
        self, agent: Any, by: Any, store: Path, viewer: Any, page_client: Any
    ) -> None:
        decide(agent, "travel")
        reward(agent)
        dataset = snapshot_ledger(by=by, agent=agent, name="all right")
        assert (dataset.statistics["right"], dataset.statistics["wrong"]) == (1, 0)
        page = page_client(viewer).get(f"/w/{agent.workspace.slug}/datasets/{dataset.id}")
        assert "All rows were right" in page.content.decode()
        base: Any = ModelVersionFactory(registered_model=agent.registered_model, workspace=agent.workspace)
        with pytest.raises(InvalidRun) as refused:
            start_run(by=by, agent=agent, plan=RunPlan("kto", dataset, base_version=base))
        assert [fault.reason for fault in refused.value.faults] == ["all its rows were right"]
        assert not TrainingRun.objects.exists() and not Job.objects.exists()


class TestStructured:
    def test_an_action_that_its_schema_enumerates_is_a_choice(self, filer: Any, by: Any) -> None:
        state = {"item": {"title": "Water the plants"}}
        first = decide(filer, WHERE | {"labels": ["garden"], "confidence": 0.7}, state=state, reasoning="green")
        other = decide(filer, WHERE | {"swimlane": "HABIT"}, "corrected", state=state)
        options = choices_of(filer.versions.get(), state).options or ()
        acting = {"temperature": 1.0, "epsilon": 0.0, "propensity": 1 / 48}
        told = [{"action": json.loads(option), "probability": 1 / 48} for option in options]
        ours = decide(filer, WHERE, state=state, alternatives=told, **acting)
        decide(filer, {"status": "TRASH"}, state=state)
        reward(filer)
        dataset = snapshot_ledger(by=by, agent=filer, name="filed")
        rows = {row.id: row for row in read_rows(rows_file(dataset), Logged)}
        assert {row.id: row.action for row in rows.values()} == {
            str(first.id): HOME,
            str(other.id): HOME.replace("HOME", "HABIT"),
            str(ours.id): HOME,
        }
        assert rows[str(ours.id)].probabilities == pytest.approx([1 / 48] * 48, abs=1e-6)
        assert all(len(row.options) == 48 for row in rows.values())
        assert (rows[str(first.id)].right, rows[str(other.id)].reward) == (1.0, 0.0)
        assert dataset.statistics["left_out"] == {"action": 1}
        preview = preview_datasets([filer])[filer.id]
        assert (preview.rows, dict(preview.actions)[HOME]) == (4, 2)

    def test_a_correction_is_an_answer_among_the_same_options(self, filer: Any, by: Any) -> None:
        decision: Any = DecisionFactory(agent=filer, action=WHERE, options=None, state={"item": {"title": "Tax"}})
        right = WHERE | {"swimlane": "PROJECT", "labels": ["money"]}
        LabelFactory(decision=decision, verdict="corrected", corrected_action=right)
        same: Any = DecisionFactory(agent=filer, action=WHERE, options=None, state={"item": {"title": "Tea"}})
        LabelFactory(decision=same, verdict="corrected", corrected_action=WHERE | {"labels": ["tea"]})
        labelled = snapshot_labels(by=by, agent=filer, name="right", question=LabelQuestion("labelled"))
        answers = {row.id: row.answer for row in read_rows(rows_file(labelled), Labelled)}
        assert answers == {str(decision.id): HOME.replace("HOME", "PROJECT"), str(same.id): HOME}
        assert labelled.has_answers
        pairs = snapshot_labels(by=by, agent=filer, name="pairs", question=LabelQuestion("preferences"))
        assert [(row["chosen"], row["rejected"]) for row in rows_of(pairs)] == [(HOME.replace("HOME", "PROJECT"), HOME)]
        assert pairs.statistics["left_out"] == {"confirmed": 1}

    def test_ids_that_the_state_offers_are_that_row_s_options(self, filer: Any, by: Any) -> None:
        agent = Agent.objects.get(workspace=filer.workspace, kind="PRIORITIZER")
        RewardSpecFactory(agent=agent, signal="verdict")
        for names in (("a", "b"), ("c", "d", "e")):
            action = {"recommended_item_id": names[-1], "alternatives": [{"item_id": names[0]}]}
            decide(agent, action, state={"todoItems": [{"id": name} for name in names]})
        reward(agent)
        rows = rows_of(snapshot_ledger(by=by, agent=agent, name="next"))
        assert [len(row["options"]) for row in rows] == [2, 3]
        assert [row["action"] for row in rows] == ['{"recommended_item_id":"b"}', '{"recommended_item_id":"e"}']


class TestRankings:
    def test_a_ranking_asks_of_each_item_whether_it_is_the_first(self, workspace: Any, by: Any, store: Path) -> None:
        agent: Any = AgentFactory(workspace=workspace, slug="ranker", kind="CUSTOM")
        AgentVersionFactory(agent=agent, action_space="ranking", options=None, prompt_template="First? {{ list }}")
        RewardSpecFactory(agent=agent)
        state = {"list": [{"id": "a", "text": "a flood"}, {"id": "b", "text": "a drip"}, {"id": "c", "text": "dust"}]}
        decision = decide(agent, ["b", "a"], state=state, options=["a", "b", "c"], propensity=0.2, unit="ann")
        decide(agent, ["x"], state={"list": "x and y"}, options=["x", "y"])
        reward(agent)
        dataset = snapshot_ledger(by=by, agent=agent, name="ranked")
        first, second, third = read_rows(rows_file(dataset), Logged)
        assert (first.id, first.action, first.reward, first.group) == (str(decision.id), "yes", 1.0, "ann")
        assert "a drip" in first.prompt and "a flood" not in first.prompt
        assert (second.action, second.reward, "a flood" in second.prompt) == ("no", None, True)
        slates = [row.slate for row in (first, second, third) if row.slate is not None]
        assert [(one.id, one.item, one.place, one.propensity) for one in slates] == [
            (str(decision.id), "b", 1, 0.2), (str(decision.id), "a", 2, 0.2), (str(decision.id), "c", None, 0.2),
        ]  # fmt: skip
        assert (dataset.rows, dataset.items.count()) == (3, 1)
        assert dataset.statistics["left_out"] == {"item": 1}  # its prompt shows the items in one piece
        # A corrected order says of each item whether it belongs first.
        LabelFactory(decision=decision, verdict="corrected", corrected_action=["c", "b", "a"])
        labelled = snapshot_labels(by=by, agent=agent, name="right", question=LabelQuestion("labelled"))
        told = read_rows(rows_file(labelled), Labelled)
        answers = {row.prompt: row.answer for row in told}
        assert answers == {third.prompt: "yes", first.prompt: "no", second.prompt: "no"} and labelled.has_answers
        assert [(row.slate.item, row.slate.place) for row in told if row.slate] == [("a", 2), ("b", 1), ("c", None)]
        [ranking] = find_rankings(told)
        assert (ranking.id, ranking.group) == (str(decision.id), "ann")
        assert ranking.relevant == tuple(row.answer == "yes" for row in ranking.items)

    def test_a_propensity_of_the_ranking_is_enough_for_reward_weighted_alone(
        self, workspace: Any, by: Any, store: Path
    ) -> None:
        agent: Any = AgentFactory(workspace=workspace, slug="ranker", kind="CUSTOM")
        AgentVersionFactory(agent=agent, action_space="ranking", options=None, prompt_template="First? {{ options }}")
        RewardSpecFactory(agent=agent)
        first = [{"action": item, "probability": p} for item, p in (("a", 0.5), ("b", 0.3), ("c", 0.2))]
        state = {"text": "which?"}
        decide(agent, ["b", "a"], options=["a", "b", "c"], alternatives=first, state=state)
        reward(agent)
        known = snapshot_ledger(by=by, agent=agent, name="known")
        slates = [row.slate for row in read_rows(rows_file(known), Logged) if row.slate is not None]
        # Plackett and Luce: b of all three, then a of what is left.
        assert [one.propensity for one in slates] == pytest.approx([0.3 * 0.5 / 0.7] * 3)
        assert {one.item: one.first for one in slates} == {"a": 0.5, "b": 0.3, "c": 0.2}
        base: Any = ModelVersionFactory(registered_model=agent.registered_model, workspace=agent.workspace)
        assert check_plan(agent, RunPlan("reward_weighted", known, base_version=base))
        with pytest.raises(InvalidRun, match="cannot"):
            check_plan(agent, RunPlan("all_action", known, base_version=base))
        # Alternatives that leave an item out tell no probabilities of first places.
        decide(agent, ["b", "a"], options=["a", "b", "c"], alternatives=first[:2], state=state)
        reward(agent)
        both = snapshot_ledger(by=by, agent=agent, name="both")
        counts = both.statistics
        assert (counts["without_propensity"], counts["without_any_propensity"]) == (6, 3)
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, RunPlan("reward_weighted", both, base_version=base))
        assert [fault.reason for fault in refused.value.faults] == ["3 of its rows have no propensity"]


class TestFindings:
    def test_they_are_scored_pairs_and_a_text(self, filer: Any, by: Any) -> None:
        agent = Agent.objects.get(workspace=filer.workspace, kind="LIBRARIAN")
        RewardSpecFactory(agent=agent, signal="verdict")
        known = [{"id": name, "title": f"note {name}"} for name in ("a", "b", "c")]
        state = {"newItem": {"title": "a flood"}, "corpus": known}
        found = [{"type": "RELATED", "relatedIds": ["c", "a"]}, {"type": "CONFLICT", "relatedIds": ["a"]}]
        told = decide(agent, {"findings": found}, state=state, unit="ann", propensity=0.5)
        none = decide(agent, {"findings": []}, "corrected", state=state)
        decide(agent, {"findings": [{"type": "SUGGESTION"}]}, state=state)
        reward(agent)
        dataset = snapshot_ledger(by=by, agent=agent, name="pairs")
        rows = read_rows(rows_file(dataset), Logged)
        assert [(row.id, row.action, row.reward, row.group) for row in rows] == [
            (str(told.id), "RELATED", 1.0, "ann"),
            (f"{told.id}/2", "RELATED", 1.0, "ann"),
            *((f"{none.id}{end}", "NONE", 0.0, str(none.id)) for end in ("", "/2", "/3")),
        ]
        assert {row.options[-1] for row in rows} == {"NONE"} and {row.propensity for row in rows} == {None}
        assert "note c" in rows[0].prompt and "note a" not in rows[0].prompt
        assert (dataset.statistics["left_out"], dataset.items.count()) == ({"options": 1}, 2)
        assert snapshot_ledger(by=by, agent=agent, name="texts", kind="text").rows == 3
        assert preview_datasets([agent])[agent.id].rows == 3


class TestTexts:
    def test_texts_and_tool_calls_and_what_no_schema_enumerates(self, workspace: Any, filer: Any, by: Any) -> None:
        agent = writing(workspace)
        told = decide(agent, "Dear Ann", state={"text": "write"}, unit="ann", logprobs=[-0.5, -0.25])
        other = decide(agent, "Dear Bob", "corrected", completion="dear bob", logprobs=[-1.0])
        reward(agent)
        dataset = snapshot_ledger(by=by, agent=agent, name="texts", kind="text")
        rows = {row.id: row for row in read_rows(rows_file(dataset), Text)}
        row = rows[str(told.id)]
        assert (row.prompt, row.completion, row.reward, row.right, row.group) == ("write", "Dear Ann", 1.0, 1.0, "ann")
        # The log-probability is of this wording only.
        assert (row.log_p, rows[str(other.id)].log_p) == (-0.75, None)
        assert (dataset.kind, dataset.reward_spec is not None, dataset.statistics["wrong"]) == ("text", True, 1)
        with pytest.raises(EmptyDataset) as refused:
            snapshot_ledger(by=by, agent=agent, name="choices")
        assert "its actions are texts" in refused.value.faults[0].reason
        preview = preview_datasets([agent, filer])
        assert (preview[agent.id].rows, preview[agent.id].counts("shape")) == (0, 2)
        assert preview_datasets([agent], kind="text")[agent.id].rows == 2

    def test_texts_are_learnt_from_and_measured_on_through_trl(
        self, workspace: Any, by: Any, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agent = writing(workspace)
        decide(agent, "Dear Ann", state={"text": "write"})
        reward(agent)
        right = snapshot_ledger(by=by, agent=agent, name="right", kind="text")
        decide(agent, "Dear Bob", "corrected")
        reward(agent)
        texts = snapshot_ledger(by=by, agent=agent, name="texts", kind="text")
        held = DatasetSnapshotFactory(agent=agent, kind="text")
        plan = RunPlan("kto", texts, base_version=ModelVersionFactory(workspace=workspace), heldout=held)
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, replace(plan, dataset=right))
        assert refused.value.faults[0].reason == "all its rows were right"
        spec = check_plan(agent, plan)
        paths = EnginePaths(base={"path": "/base"}, train="data/train.jsonl", heldout="data/heldout.jsonl")
        data = engine_spec(spec, plan, run_id="r", paths=paths)["data"]
        assert (data["rows"], data["heldout_rows"]) == ("text", "text")
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, replace(plan, method="posterior", replay=held))
        assert [fault.field for fault in refused.value.faults] == ["dataset", "replay"]
        monkeypatch.setitem(sys.modules, "trl", None)  # as if it were not there
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, plan)
        assert "make text" in refused.value.faults[0].reason

    @pytest.mark.parametrize(
        ("kind", "action", "completion"),
        [
            (
                "tool_calls",
                [{"name": "f", "arguments": {"b": 1.0, "a": 2}}],
                '[{"arguments":{"a":2,"b":1},"name":"f"}]',
            ),
            ("structured", {"text": "é", "a": 1}, '{"a":1,"text":"é"}'),
        ],
    )
    def test_a_completion_is_canonical(
        self, kind: str, action: Any, completion: str, workspace: Any, by: Any, store: Path
    ) -> None:
        agent = writing(workspace, kind)
        decide(agent, action)
        reward(agent)
        (row,) = rows_of(snapshot_ledger(by=by, agent=agent, name="texts", kind="text"))
        assert row["completion"] == completion


class TestFilters:
    def test_they_narrow_preview_and_dataset_alike(self, agent: Any, by: Any, store: Path) -> None:
        own = ModelVersionFactory(registered_model=agent.registered_model, workspace=agent.workspace)
        made = [
            decide(agent, "travel", unit="ann"),
            decide(agent, "travel", "corrected", policy_name="rules-7"),
            decide(agent, "travel", policy_name=None, model_version=own),
        ]
        reward(agent)
        for filters, found in (
            (Filters(unit="ann"), [0]),
            (Filters(policy="rules-7"), [1]),
            (Filters(policy=str(own)), [2]),
            (Filters(min_reward=0.0), [0, 2]),
            (Filters(until=made[1].recorded_at), [0]),
            (Filters(since=made[1].recorded_at), [1, 2]),
        ):
            dataset = snapshot_ledger(by=by, agent=agent, name="some", filters=filters)
            assert [row["id"] for row in rows_of(dataset)] == [str(made[place].id) for place in found], filters
            preview = preview_datasets([agent], filters=filters)[agent.id]
            assert (preview.rows, preview.counts("filtered")) == (len(found), 3 - len(found)), filters
            assert Filters.from_plain(json.loads(json.dumps(dataset.query))) == filters

    def test_incomplete_answers_are_left_out_unless_asked_for(self, agent: Any, by: Any, store: Path, api: Any) -> None:
        endings = ("stop", "length", "content_filter", "abandoned", "cut", None)
        made = {ending: str(decide(agent, "travel", finish_reason=ending).id) for ending in endings}
        reward(agent)
        complete = {made["stop"], made[None]}
        for filters, found in ((Filters(), complete), (Filters(incomplete=True), set(made.values()))):
            dataset = snapshot_ledger(by=by, agent=agent, name="some", filters=filters)
            assert {row["id"] for row in rows_of(dataset)} == found
            preview = preview_datasets([agent], filters=filters)[agent.id]
            assert (preview.rows, preview.counts("incomplete")) == (len(found), 6 - len(found))
        asked = {"agent": "filer", "name": "all", "incomplete": True}
        assert api("admin").post("datasets", asked).status_code == 202
        assert json.dumps(Job.objects.get().payload).count('"incomplete": true') == 1

    def test_the_same_question_has_the_same_hash(self, agent: Any, by: Any, store: Path) -> None:
        for number in range(3):
            decide(agent, "travel", state={"text": f"note {number}"})
        reward(agent)
        asked = {"by": by, "agent": agent, "filters": Filters(min_reward=0.0)}
        first, second = (snapshot_ledger(name=name, **asked) for name in ("one", "two"))
        assert first.id != second.id and first.artifact.digest == second.artifact.digest
        manifest = json.loads((artifact_path(first.artifact.digest) / "MANIFEST.json").read_text())["meta"]
        assert manifest["query"] == {"agent": "filer", "reward_spec": 1, "min_reward": 0.0}
        assert (manifest["rows"], manifest["counts"]["right"]) == (3, 3)
        assert manifest["reward_spec_hash"] == current_reward_spec(agent).spec_hash
        decide(agent, "finance")
        reward(agent)
        assert snapshot_ledger(name="three", **asked).artifact.digest != first.artifact.digest

    def test_bad_filters_are_refused_all_at_once(self, agent: Any, api: Any, admin: Any, page_client: Any) -> None:
        asked = {"agent": "filer", "name": "n", "kind": "labelled", "min_reward": 0, "held_out": 0.9}
        moments = {"since": "2026-11-02T00:00:00Z", "until": "2026-11-01T00:00:00Z"}
        answer = api("admin").post("datasets", asked | moments)
        assert answer.status_code == 400
        assert [one["field"] for one in answer.json()["error"]["fields"]] == ["until", "min_reward", "held_out"]
        path = f"/w/{agent.workspace.slug}/datasets/new"
        assert page_client(admin).get(f"{path}?since=yesterday").status_code == 400
        err = StringIO()
        with pytest.raises(SystemExit) as code:
            flags = ("--since", "2026-11-02", "--until", "2026-11-01", "--held-out", "2")
            call_command("create_dataset", "--agent", "filer", "--name", "n", *flags, stderr=err)
        assert code.value.code == 2 and err.getvalue().count("\n") == 2
        assert not Job.objects.exists() and not DatasetSnapshot.objects.exists()


class TestHoldingOut:
    def test_a_part_is_held_out_by_the_same_job(
        self, agent: Any, api: Any, store: Path, admin: Any, page_client: Any
    ) -> None:
        episode = EpisodeFactory(agent=agent)
        near = " ".join(["the gate of the plane to Oslo", *(f"detail{number}" for number in range(40))])
        moment, count = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), itertools.count()

        def decide_as(text: str, **fields: Any) -> None:
            """By ids that lie on the same sides in every test."""
            place = next(count)
            decide(agent, "travel", id=uuid7_of(moment, b"%d" % place), state={"text": text}, **fields)

        for number in range(40):
            decide_as(f"{number} word{number} other{number}", unit=f"unit {number % 20}")
        for number in range(4):
            decide_as(f"step{number} of{number} many{number}", episode=episode)
        for text in (near, near.upper() + "!", f"{near} more"):
            decide_as(text)
        reward(agent)
        asked = api("admin").post("datasets", {"agent": "filer", "name": "both", "held_out": 0.3}).json()
        run_job(asked["id"])
        told = api("admin").get(f"datasets/freezings/{asked['id']}").json()
        assert told["state"] == "succeeded", told["error"]
        kept, held = (DatasetSnapshot.objects.get(id=told[name]) for name in ("dataset", "held_out"))
        assert kept.rows + held.rows == 47 and 5 <= held.rows <= 23
        assert (held.name, kept.statistics["held_out"]) == ("both (held out)", str(held.id))
        sides = [rows_of(kept), rows_of(held)]
        assert not {row.get("group") for row in sides[0]} & {row.get("group") for row in sides[1]} - {None}
        for words in ("gate", "many"):
            assert sorted(sum(words in row["prompt"].lower() for row in side) > 0 for side in sides) == [False, True]
        page = page_client(admin).get(f"/w/{agent.workspace.slug}/datasets/{kept.id}").content.decode()
        assert held.name in page
        # A second time, the same decisions stand on the same sides.
        call_command("create_dataset", "--agent", "filer", "--name", "again", "--held-out", "0.3", stdout=StringIO())
        again = list(DatasetSnapshot.objects.order_by("-id")[:2])
        assert {one.artifact.digest for one in again} == {kept.artifact.digest, held.artifact.digest}

    def test_what_hangs_together_cannot_be_parted(self, agent: Any, by: Any, store: Path) -> None:
        for number in range(3):
            decide(agent, "travel", unit="ann", state={"text": f"note {number}"})
        reward(agent)
        with pytest.raises(EmptyDataset, match="held out"):
            snapshot_ledger(by=by, agent=agent, name="both", held_out=0.3)
        assert not DatasetSnapshot.objects.exists()


def test_texts_are_nearly_the_same_or_not() -> None:
    long = " ".join(f"word{number}" for number in range(60))

    def together(one: str, other: str) -> bool:
        relations = Relations()
        for text in (one, other):
            relations.add(uuid7(), unit=None, episode=None, text=text)
        return relations.hold_out(0.5)[0] == relations.hold_out(0.5)[1] and relations._find(0) == relations._find(1)

    assert together(long, long.upper() + " …")
    assert together(long, long + " more")
    assert not together(long, " ".join(f"other{number}" for number in range(60)))
    assert not together("", "")
