"""The rows of exported decisions that chose or ranked: those of a dataset, and what people said is right."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.agents.services import create_notes_agents
from decisions.labelling.labels import record_verdict
from decisions.models import Agent
from decisions.queries.export import FORMATS, ExportChoice, export_lines
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tools.factories import AgentVersionFactory, DecisionFactory
from tools.notes_worlds import draw_cases
from training.datasets.snapshots import snapshot_ledger
from training.engine.spec.methods import RowKind
from training.imports.answers import read_answers_file
from training.imports.exported import read_export

ITEMS = ["rent", "flights", "piano"]


def write(workspace: Any, path: Path, **chosen: Any) -> Path:
    path.write_bytes(b"".join(export_lines(workspace=workspace, chosen=ExportChoice(**chosen), format="chat")))
    return path


def rank(agent: Any, by: Any) -> None:
    """A ranking that was right, and one that put the wrong item first."""
    version = AgentVersionFactory(
        agent=agent, action_space="ranking", options=None, prompt_template="{{ text }}\n{{ options }}"
    )
    for action, right in ((["rent", "piano"], None), (["flights", "rent", "piano"], ["piano", "rent", "flights"])):
        decision = DecisionFactory(
            agent=agent, agent_version=version, options=ITEMS, action=action, propensity=None, state={"text": "next"}
        )
        verdict = "confirmed" if right is None else "corrected"
        record_verdict(by=by, decision=decision, verdict=verdict, correction=right)


def choose(agent: Any, by: Any) -> None:
    for verdict, correction in (("confirmed", None), ("corrected", "travel"), ("overridden", None)):
        decision = DecisionFactory(agent=agent, action="finance", propensity=0.25, unit="user-1")
        record_verdict(by=by, decision=decision, verdict=verdict, correction=correction)


@pytest.mark.django_db
@pytest.mark.parametrize(("decide", "answers"), [(choose, ["travel", "finance"]), (rank, ["no", "no", "yes", "yes"])])
@pytest.mark.parametrize("format", list(FORMATS))
def test_they_are_the_rows_of_a_dataset_and_say_what_is_right(
    agent: Any, by: Any, workspace: Any, store: Path, tmp_path: Path, decide: Any, answers: list[str], format: str
) -> None:
    decide(agent, by)
    calculate_rewards(current_reward_spec(agent))
    dataset = snapshot_ledger(by=by, agent=agent, name="all")
    frozen = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    file = tmp_path / "exported.jsonl"
    file.write_bytes(b"".join(export_lines(workspace=workspace, chosen=ExportChoice(), format=format)))
    found, faults = read_export(file)
    assert (found.kind, faults, found.left_out) == (RowKind.LOGGED, [], 0)
    by_id = sorted(found.rows, key=lambda row: str(row["id"]))
    assert by_id == sorted(map(json.loads, frozen), key=lambda row: str(row["id"]))
    told = [found.answers[row["id"]] for row in found.rows if row["id"] in found.answers]
    assert told[: len(answers)] == answers

    known, faults = read_answers_file(file)
    assert (known.kind, faults, known.agents, known.kinds) == (RowKind.LABELLED, [], {"filer"}, {"FILER"})
    if decide is choose:
        # The overridden one names no right option among several.
        assert ([row["answer"] for row in known.rows], known.left_out) == (["travel", "finance"], 1)
    else:
        relevant = {row["slate"]["item"] for row in known.rows if row["answer"] == "yes"}
        assert relevant == {"piano", "rent"} and len(known.rows) == 6


@pytest.mark.django_db
def test_kinds_of_the_notes_app_that_choose_have_rows_and_those_that_write_have_none(
    by: Any, workspace: Any, tmp_path: Path
) -> None:
    create_notes_agents(by=by)
    for kind in ("FILER", "PRIORITIZER", "RETRIEVER"):
        agent = Agent.objects.get(kind=kind)
        for case in draw_cases(kind, 3, 0):
            decision = DecisionFactory(agent=agent, state=case.state, action=case.action, options=None, propensity=None)
            record_verdict(by=by, decision=decision, verdict="confirmed")
        calculate_rewards(current_reward_spec(agent))
    of = {
        kind: read_export(write(workspace, tmp_path / f"{kind}.jsonl", kind=kind))[0]
        for kind in ("FILER", "PRIORITIZER", "RETRIEVER")
    }
    assert [one.kind for one in of.values()] == [RowKind.LOGGED, RowKind.LOGGED, RowKind.TEXT]
    assert [len(one.rows[0].get("options", ())) for one in of.values()] == [48, 4, 0]
    assert set(json.loads(of["FILER"].rows[0]["action"])) == {"status", "swimlane", "priority"}  # no confidence
    whole = write(workspace, tmp_path / "all.jsonl")
    found, faults = read_export(whole)
    assert (found.kind, len(found.rows), found.left_out, faults) == (RowKind.LOGGED, 6, 3, [])
    assert found.kinds == {"FILER", "PRIORITIZER", "RETRIEVER"}

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for arguments, says in (
        ((whole,), "all.jsonl: holds decisions of FILER, PRIORITIZER, RETRIEVER; export those of one kind"),
        ((tmp_path / "PRIORITIZER.jsonl", "--agent-type", "FILER"), "--agent-type: filer is a FILER, but "),
    ):
        test_data, *more = map(str, arguments)
        with pytest.raises(SystemExit) as ended:
            call_command(
                "evaluate", "--model", str(folder), "--test-data", test_data, *more, stderr=(err := io.StringIO())
            )
        assert ended.value.code == 2 and says in err.getvalue()


def test_every_fault_of_a_row_has_its_line(tmp_path: Path) -> None:
    row = {"id": "1", "prompt": "p", "options": ["a", "b"], "action": "a"}
    lines = [
        {"rows": [row | {"answer": "c"}]},
        {"rows": [row | {"action": "c", "id": "2"}]},
        {"rows": [{"id": "3"}]},
        {"rows": [row]},
    ]
    file = tmp_path / "exported.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    faults = read_export(file)[1]
    assert [fault.removeprefix(f"{file}:") for fault in faults] == [
        "1: rows: answer 'c' is not among the options",
        "2: rows: action: 'c' is not among the options",
        "3: rows: Object missing required field `prompt`",
        "4: rows: id '1' appears twice",
    ]
    file.write_text(json.dumps({"rows": []}))
    [fault] = read_export(file)[1]
    assert "none of its 1 decisions makes a row: the action is not among the options" in fault
