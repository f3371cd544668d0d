"""What `export_training_data` writes of an agent that chooses trains and is evaluated as choices.

By the commands alone, from recorded decisions with verdicts to an accuracy on decisions that were held out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.agents.services import create_notes_agents
from decisions.labelling.labels import record_verdict
from decisions.models import Agent
from tools.factories import DecisionFactory
from tools.notes_worlds import POLICY_RIGHT, draw_cases

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
TAUGHT, HELD_OUT = 200, 60
CHANCE = {"FILER": 1 / 48, "PRIORITIZER": 1 / 4, "RETRIEVER": 1 / 4}
QUICK = ("--batch-size", 16, "--learning-rate", 3e-3, "--no-quantization", "--epochs", 8, "--json")


def run(command: str, *arguments: object) -> str:
    call_command(command, *map(str, arguments), stdout=(out := io.StringIO()), stderr=io.StringIO())
    return out.getvalue()


@pytest.fixture
def exported(by: Any, tmp_path: Path) -> Callable[[str, str], tuple[Path, Path]]:
    """`exported(kind, format)`: a file to learn from, and one of decisions that were made later."""
    create_notes_agents(by=by)

    def write(kind: str, format: str) -> tuple[Path, Path]:
        agent = Agent.objects.get(kind=kind)
        files = []
        for name, count in (("train", TAUGHT), ("test", HELD_OUT)):
            for case in draw_cases(kind, count, name):
                decision = DecisionFactory(
                    agent=agent, state=case.state, options=None, action=case.action, propensity=None
                )
                decided = {name: value for name, value in case.action.items() if name != "confidence"}
                if decided == case.right:
                    record_verdict(by=by, decision=decision, verdict="confirmed")
                else:
                    record_verdict(by=by, decision=decision, verdict="corrected", correction=case.right)
            run("calculate_rewards", "--agent-type", kind)
            files.append(tmp_path / f"{kind}-{name}.jsonl")
            limit = ("--limit", count)  # the newest
            run("export_training_data", "--agent-type", kind, "--output", files[-1], "--format", format, *limit)
        return files[0], files[1]

    return write


@pytest.mark.parametrize(("kind", "format"), [("FILER", "chat"), ("PRIORITIZER", "completion")])
def test_an_export_of_choices_trains_and_is_evaluated_as_choices(
    exported: Callable[[str, str], tuple[Path, Path]], tmp_path: Path, kind: str, format: str
) -> None:
    train, test = exported(kind, format)
    base, model = tmp_path / "base", tmp_path / f"{kind}-v1"
    told = json.loads(run("train", "--data", train, "--output", base, "--model", "tiny", *QUICK))
    assert told["method"] == "pretrain" and told["rows"] == TAUGHT  # every verdict names the right option
    over = ("--model", base / "model", "--method", "posterior")
    told = json.loads(run("train", "--data", train, "--output", model, *over, *QUICK))
    assert told["rows"] == TAUGHT

    scores = json.loads(run("evaluate", "--model", model, "--test-data", test))
    assert (scores["agent"], scores["rows"], scores["left_out"]) == (kind.lower(), HELD_OUT, 0)
    assert scores["accuracy"] > max(2 * CHANCE[kind], POLICY_RIGHT)
    assert scores["error_rate"] == pytest.approx(1 - scores["accuracy"])
    assert scores["average_reward"] == pytest.approx(0.375 + 0.375 * scores["accuracy"])
    fields = {one["name"]: one["accuracy"]["mean"] for one in scores["scores"]["fields"]}
    right = {"FILER": {"status", "swimlane", "priority"}, "PRIORITIZER": {"recommended_item_id"}}[kind]
    assert set(fields) == right and all(share >= scores["accuracy"] for share in fields.values())
    assert scores["scores"]["valid_share"]["mean"] > 0.9

    # Chats without rows ask otherwise, and an adapter that learnt to choose would have none of them right.
    lines = [json.loads(line) for line in test.read_text().splitlines()]
    told = [{"messages": line["messages"]} for line in lines] if format == "chat" else []
    test.write_text("".join(json.dumps(line) + "\n" for line in told))
    if told:
        arguments = ("--model", str(model), "--test-data", str(test))
        with pytest.raises(SystemExit) as ended:
            call_command("evaluate", *arguments, stdout=io.StringIO(), stderr=(err := io.StringIO()))
        assert ended.value.code == 2
        assert "but the model learnt from prompts that begin with 'File this item." in err.getvalue()


def test_an_export_of_what_was_written_is_evaluated_by_what_it_cites(
    exported: Callable[[str, str], tuple[Path, Path]], tmp_path: Path
) -> None:
    train, test = exported("RETRIEVER", "completion")
    base = tmp_path / "base"
    longer = (*QUICK[:-2], 12, "--json")
    told = json.loads(run("train", "--data", train, "--output", base, "--model", "tiny", *longer))
    assert 0.5 * TAUGHT < told["rows"] < TAUGHT  # what was right
    for name in ("full", "content"):  # the same documents are cited for other content
        lines = [json.loads(line) for line in test.read_text().splitlines()]
        for line in lines if name == "content" else ():
            cited = json.loads(line["completion"])
            line["completion"] = json.dumps(cited | {"generatedContent": "Other words.", "confidence": 0.1})
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    full, other = (
        json.loads(run("evaluate", "--model", base, "--test-data", tmp_path / name)) for name in ("full", "content")
    )
    assert full["agent"] == "retriever" and full["rows"] + full["left_out"] == HELD_OUT
    assert full["accuracy"] > 2 * CHANCE["RETRIEVER"], full["sample_errors"][:3]
    assert other["accuracy"] == full["accuracy"]
    assert [one["name"] for one in full["scores"]["fields"]] == ["sourceCitations"]
