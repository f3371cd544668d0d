"""Datasets of people's labels: which rows they hold, where each comes from, and what learns from them."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from decisions.erasure.erasing import Person
from decisions.models.tombstones import ERASED_HASH
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts import opening as artifacts
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    LabelFactory,
    LabelSuggestionFactory,
    ModelVersionFactory,
    RewardSpecFactory,
)
from training.datasets.label_preview import preview_labels
from training.datasets.of_labels import snapshot_labels
from training.engine.data.reading import read_rows
from training.engine.rows.types import Labelled
from training.engine.spec.methods import Need
from training.errors import EmptyDataset, InvalidRun
from training.lineage.erasure import start_erasure
from training.models import DatasetSnapshot
from training.rows.labels import LabelQuestion
from training.rows.selection import Filters
from training.runs.services import EnginePaths, RunPlan, check_plan, engine_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(agent: Any, store: Path) -> dict[str, Any]:
    """A decision of every kind; all of them chose travel."""

    def decide(text: str, **fields: Any) -> Any:
        return DecisionFactory(agent=agent, state={"text": text}, action="travel", unit="ann", **fields)

    made = {
        name: decide(f"note {name}")
        for name in ("confirmed", "corrected", "app", "wrong", "judge", "open", "both", "unsure")
    }
    LabelFactory(decision=made["confirmed"])
    LabelFactory(decision=made["corrected"], verdict="corrected", corrected_action="finance")
    FeedbackFactory(decision=made["app"])
    FeedbackFactory(decision=made["wrong"], value="corrected")  # what would have been right, nobody said
    FeedbackFactory(decision=made["judge"], source="llm")
    LabelFactory(decision=made["both"], verdict="overridden", corrected_action="health")
    LabelSuggestionFactory(decision=made["open"], action="finance", confidence=0.97)
    LabelSuggestionFactory(decision=made["both"], action="finance", confidence=0.99)
    LabelSuggestionFactory(decision=made["unsure"], action="finance", confidence=0.6)
    LabelFactory(decision=decide("gone", content_hash=ERASED_HASH))
    LabelFactory(decision=DecisionFactory(agent=agent, state={"subject": "no text"}))
    return made


def test_an_incomplete_answer_teaches_only_by_its_correction(agent: Any, by: Any, store: Path) -> None:
    endings = ("stop", "length", "content_filter", "abandoned", "cut")
    for number, ending in enumerate(endings):
        cut = DecisionFactory(agent=agent, state={"text": f"note {number}"}, action="travel", finish_reason=ending)
        LabelFactory(decision=cut)
    corrected = DecisionFactory(agent=agent, state={"text": "note"}, action="travel", finish_reason="cut")
    LabelFactory(decision=corrected, verdict="corrected", corrected_action="finance")
    for filters, rows, left_out in ((Filters(), 2, 4), (Filters(incomplete=True), 6, 0)):
        question = LabelQuestion("labelled", filters=filters)
        dataset = snapshot_labels(by=by, agent=agent, name="labels", question=question)
        assert len(rows_of(dataset)) == rows
        assert dataset.statistics.get("left_out", {}).get("incomplete", 0) == left_out
        preview = preview_labels(agent, question)
        assert (preview.rows, preview.counts("incomplete")) == (rows, left_out)


def rows_of(dataset: DatasetSnapshot) -> list[dict[str, Any]]:
    lines = (artifacts.artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def made_by(api: Any, **asked: Any) -> DatasetSnapshot:
    """The dataset that the API's call makes."""
    answer = api("admin").post("datasets", {"agent": "filer", "name": "labels", **asked})
    assert answer.status_code == 202, answer.content
    job = Job.objects.get(id=answer.json()["id"])
    run_job(job.id)
    job.refresh_from_db()
    assert job.state == "succeeded", job.error
    return DatasetSnapshot.objects.latest("id")


class TestRows:
    def test_labels_become_right_answers_with_their_source(self, judged: dict[str, Any], api: Any, by: Any) -> None:
        dataset = made_by(api, kind="labelled")
        rows = rows_of(dataset)
        assert [(row["id"], row["answer"], row["source"], row["verdict"]) for row in rows] == [
            (str(judged["confirmed"].id), "travel", "label", "confirmed"),
            (str(judged["corrected"].id), "finance", "label", "corrected"),
            (str(judged["app"].id), "travel", "human", "confirmed"),
            (str(judged["both"].id), "health", "label", "overridden"),
        ]
        label = judged["corrected"].labels.get()
        assert rows[1] == {
            "id": str(judged["corrected"].id),
            "prompt": "note corrected",
            "options": ["finance", "travel", "health"],
            "answer": "finance",
            "completion": "finance",
            "source": "label",
            "label_id": str(label.id),
            "verdict": "corrected",
            "group": "ann",
        }
        assert rows[2]["label_id"] is None
        told = dataset.statistics
        assert (dataset.rows, told["sources"], told["suggested"]) == (4, {"label": 3, "human": 1}, 0)
        assert told["left_out"] == {"answer": 1, "program": 1, "prompt": 1}
        manifest = json.loads((artifacts.artifact_path(dataset.artifact.digest) / "MANIFEST.json").read_text())
        assert manifest["meta"]["counts"]["sources"] == told["sources"]
        artifacts.verify_artifact(dataset.artifact.digest)
        assert {item.decision_id for item in dataset.items.all()} == {
            judged[name].id for name in ("confirmed", "corrected", "app", "both")
        }
        # The engine takes them, and a run may learn from them.
        path = artifacts.artifact_path(dataset.artifact.digest) / "rows.jsonl"
        assert [row.answer for row in read_rows(path, Labelled)] == ["travel", "finance", "travel", "health"]
        plan = RunPlan(method="pretrain", dataset=dataset, base_model="tiny", replay=None)
        assert check_plan(dataset.agent, plan)["method"] == "pretrain"

    def test_corrections_become_pairs_of_a_better_and_a_worse_action(self, judged: dict[str, Any], api: Any) -> None:
        dataset = made_by(api, kind="preferences")
        assert [(row["prompt"], row["chosen"], row["rejected"], row["source"]) for row in rows_of(dataset)] == [
            ("note corrected", "finance", "travel", "label"),
            ("note both", "health", "travel", "label"),
        ]
        assert dataset.statistics["left_out"]["confirmed"] == 3
        with pytest.raises(InvalidRun) as refused:
            check_plan(dataset.agent, RunPlan(method="pretrain", dataset=dataset, base_model="tiny"))
        assert [fault.field for fault in refused.value.faults] == ["dataset"]
        base = ModelVersionFactory(registered_model=dataset.agent.registered_model)
        assert dataset.can_teach
        assert check_plan(dataset.agent, RunPlan(method="dpo", dataset=dataset, base_version=base))["method"] == "dpo"

    def test_suggestions_make_rows_only_where_they_are_asked_for_and_nobody_judged(
        self, judged: dict[str, Any], api: Any
    ) -> None:
        dataset = made_by(api, kind="labelled", suggestions=True, least_confidence=0.9)
        rows = {row["id"]: row for row in rows_of(dataset)}
        assert len(rows) == 5 and str(judged["unsure"].id) not in rows
        guess = judged["open"].suggestions.get()
        assert (
            rows[str(judged["open"].id)].items()
            >= {
                "answer": "finance",
                "source": "suggestion",
                "confidence": 0.97,
                "classifier": guess.made_at.isoformat(),
                "label_id": None,
                "verdict": None,
            }.items()
        )
        # A person's label stands, however sure the auto-labeler is.
        assert (rows[str(judged["both"].id)]["answer"], rows[str(judged["both"].id)]["confidence"]) == ("health", None)
        assert (dataset.statistics["suggested"], dataset.query["least_confidence"]) == (1, 0.9)
        assert dataset.statistics["sources"] == {"label": 3, "human": 1, "suggestion": 1}
        pairs = made_by(api, kind="preferences", suggestions=True, least_confidence=0.5)
        assert [row["source"] for row in rows_of(pairs)] == ["label", "suggestion", "label", "suggestion"]

    def test_other_actions_are_texts_or_canonical_json(self, workspace: Any, by: Any, store: Path) -> None:
        spaces = {
            "text": ("Dear Ann", "Dear Ben"),
            "ranking": (["b", "a"], ["a", "b"]),
            "structured": ({"b": 1, "a": {"d": "é", "c": 2}}, {"b": 2, "a": None}),
            "tool_calls": ([{"name": "find", "arguments": {"q": "x", "n": 1}}], []),
        }
        said = {
            "text": ("Dear Ben", "Dear Ann"),
            "ranking": ('["a","b"]', '["b","a"]'),
            "structured": ('{"a":null,"b":2}', '{"a":{"c":2,"d":"é"},"b":1}'),
            "tool_calls": ("[]", '[{"arguments":{"n":1,"q":"x"},"name":"find"}]'),
        }
        for space, (action, right) in spaces.items():
            agent = AgentFactory(workspace=workspace, slug=space.replace("_", "-"))
            schema = {"type": "object"} if space == "structured" else None
            AgentVersionFactory(agent=agent, action_space=space, options=None, action_schema=schema)
            decision = DecisionFactory(agent=agent, action=action, options=["a", "b"] if space == "ranking" else None)
            LabelFactory(decision=decision, verdict="corrected", corrected_action=right)
            pairs = snapshot_labels(by=by, agent=agent, name="p", question=LabelQuestion("preferences"))
            (row,) = rows_of(pairs)
            assert (row["chosen"], row["rejected"]) == said[space]
            if space == "ranking":  # its prompt does not show the items
                with pytest.raises(EmptyDataset):
                    snapshot_labels(by=by, agent=agent, name="r", question=LabelQuestion("labelled"))
                continue
            rows = snapshot_labels(by=by, agent=agent, name="r", question=LabelQuestion("labelled"))
            (row,) = rows_of(rows)
            assert row["completion"] == said[space][0] and not {"options", "answer"} & row.keys()
            # They are texts, each of which is right: methods of texts learn from them.
            plan = RunPlan(method="pretrain", dataset=rows, base_model="tiny")
            paths = EnginePaths(base={}, train="rows.jsonl")
            spec = engine_spec(check_plan(agent, plan), plan, run_id="1", paths=paths)
            assert (spec["data"]["rows"], rows.can_teach) == ("text", True)
            assert rows.why_without(Need.RIGHT_AND_WRONG) == "none of its rows has a reward"
            rows.rows += 1  # where another one has options
            with pytest.raises(InvalidRun) as refused:
                check_plan(agent, plan)
            assert "1 of its rows choose among no options" in [fault.reason for fault in refused.value.faults]

    def test_the_rows_go_to_other_trainers_in_their_formats(self, judged: dict[str, Any], api: Any) -> None:
        pairs, labels = made_by(api, kind="preferences"), made_by(api, kind="labelled")

        def read(dataset: DatasetSnapshot, format: str) -> list[dict[str, Any]]:
            answer = api("export:read").get(f"datasets/{dataset.id}/rows?format={format}")
            assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
            return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]

        assert read(pairs, "rows") == rows_of(pairs) == read(pairs, "completion")
        assert read(labels, "completion")[1]["completion"] == "finance"
        chat = read(pairs, "chat")[0]
        assert chat["prompt"] == [{"role": "user", "content": "note corrected"}]
        assert chat["chosen"] == [{"role": "assistant", "content": "finance"}]
        assert api("export:read").get(f"datasets/{pairs.id}/rows?format=xml").status_code == 400
        assert {row["label"] for row in read(pairs, "kto")} == {True, False}
        refused = api("export:read").get(f"datasets/{labels.id}/rows?format=kto")
        assert refused.status_code == 400 and "all are right" in str(refused.json())
        bare = DatasetSnapshotFactory(agent=pairs.agent)
        assert api("export:read").get(f"datasets/{bare.id}/rows").status_code == 409


class TestAsking:
    def test_the_page_counts_what_the_job_takes(
        self, judged: dict[str, Any], agent: Any, workspace: Any, admin: Any, page_client: Any
    ) -> None:
        client, path = page_client(admin), reverse("pages:dataset-make", args=[workspace.slug])
        asked = {"kind": "labelled", "suggestions": "on", "least_confidence": "0.9"}
        page = client.get(path, asked)
        preview = page.context["preview"]
        assert (preview.rows, preview.looked_at) == (5, 10)
        assert dict(preview.sources) == {"label": 3, "human": 1, "suggestion": 1}
        assert dict(preview.actions) == {"finance": 2, "travel": 2, "health": 1}
        assert dict(preview.left_out) == {"answer": 1, "program": 1, "feedback": 1, "erased": 1, "prompt": 1}
        text = page.content.decode()
        assert "no verdict, right: finance" in text  # the newest decision of which an answer is known
        assert (
            "Suggestions of the auto-labeler" in text and "have a verdict that does not name the right action" in text
        )
        assert dict(client.get(path, {"kind": "labelled"}).context["preview"].sources) == {"label": 3, "human": 1}
        assert client.get(path, {"kind": "preferences"}).context["preview"].rows == 2
        for wrong in ("2", "nan", "x"):
            assert client.get(path, asked | {"least_confidence": wrong}).status_code == 400
        client.post(path, {"agent": agent.slug, "name": "monday", **asked})
        run_job(Job.objects.get().id)
        dataset = DatasetSnapshot.objects.get()
        assert (dataset.kind, dataset.rows) == ("labelled", preview.rows)
        shown = client.get(reverse("pages:dataset", args=[workspace.slug, dataset.id])).content.decode()
        assert "Suggestions of the auto-labeler" in shown and "Train on this dataset" in shown

    def test_rewarded_decisions_take_no_suggestions(self, judged: dict[str, Any], api: Any) -> None:
        answer = api("admin").post("datasets", {"agent": "filer", "name": "n", "suggestions": True})
        assert answer.status_code == 400 and answer.json()["error"]["fields"][0]["field"] == "suggestions"
        assert not Job.objects.exists()

    def test_without_labels_the_job_says_so(self, agent: Any, api: Any, store: Path) -> None:
        DecisionFactory(agent=agent)
        answer = api("admin").post("datasets", {"agent": "filer", "name": "n", "kind": "preferences"})
        assert run_job(answer.json()["id"]) == "dead"
        assert "No decision has a person's correction." in Job.objects.get().error
        assert not DatasetSnapshot.objects.exists()

    def test_the_command_makes_the_same(self, judged: dict[str, Any], capsys: Any) -> None:
        asked = ["--agent", "filer", "--name", "n"]
        call_command("create_dataset", *asked, "--kind", "labelled", "--suggestions", "--json")
        told = json.loads(capsys.readouterr().out)
        dataset = DatasetSnapshot.objects.get(id=told["dataset"])
        assert told["rows"] == dataset.rows == 5 and told["statistics"] == dataset.statistics
        for code, wrong in ((2, ["--suggestions"]), (2, ["--agent-version", "9"]), (1, ["--kind", "logged"])):
            with pytest.raises(SystemExit) as stopped:
                call_command("create_dataset", *asked, *wrong, stderr=StringIO())
            assert stopped.value.code == code
        assert DatasetSnapshot.objects.count() == 1


class TestLearning:
    def test_what_a_run_learns_from_is_not_what_it_is_measured_on(self, judged: dict[str, Any], by: Any) -> None:
        agent = judged["app"].agent
        labels = snapshot_labels(by=by, agent=agent, name="labels", question=LabelQuestion("labelled"))
        logged = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=RewardSpecFactory(agent=agent))
        base = ModelVersionFactory(registered_model=agent.registered_model)
        plan = RunPlan(method="posterior", dataset=logged, base_version=base, heldout=labels)
        check_plan(agent, plan)
        logged.items.create(decision_id=judged["app"].id, reward_version=1)
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, plan)
        assert [fault.field for fault in refused.value.faults] == ["heldout"]
        check_plan(agent, RunPlan(method="posterior", dataset=logged, base_version=base, replay=labels))

    @pytest.mark.django_db(transaction=True)
    def test_an_erasure_marks_it_and_a_rebuild_asks_the_same_again(
        self, judged: dict[str, Any], agent: Any, by: Any, api: Any
    ) -> None:
        other = DecisionFactory(agent=agent, unit="bob")
        LabelFactory(decision=other, verdict="corrected", corrected_action="health")
        question = LabelQuestion("preferences", least_confidence=0.9)
        dataset = snapshot_labels(by=by, agent=agent, name="pairs", question=question)
        assert dataset.rows == 4
        assert run_job(start_erasure(by=by, person=Person("unit", "ann")).job_id) == "succeeded"
        dataset.refresh_from_db()
        assert dataset.erased_rows == 3
        assert not artifacts.artifact_path(dataset.artifact.digest).exists()
        assert api("export:read").get(f"datasets/{dataset.id}/rows").status_code == 409
        answer = api("admin").post(f"datasets/{dataset.id}/rebuild")
        assert run_job(answer.json()["id"]) == "succeeded"
        fresh = DatasetSnapshot.objects.latest("id")
        assert (fresh.kind, fresh.rows, fresh.query) == ("preferences", 1, dataset.query)
        assert rows_of(fresh)[0]["id"] == str(other.id)
