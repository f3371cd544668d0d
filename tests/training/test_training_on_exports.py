"""What `export_training_data` wrote of the notes app's decisions trains `manage.py train --data`, in each of its
formats, to a model that loads; what the file lacks is refused precisely."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.decisions.notes_app.notes_requests import FILER, T, judge
from training.runs import launcher

BODIES = {
    "FILER": FILER,
    "STORER": {
        "agentType": "STORER",
        "state": {"completedItem": {"id": "item-1"}, "targetOpus": {"id": "opus-1", "name": "Travel"}},
        "action": {"integrationDecision": "INTEGRATE", "location": "Flights", "method": "APPEND"},
        "userId": "user-1",
        "modelVersion": "gpt-4.1-mini-20250101",
    },
}
ITEM = {"FILER": "item", "STORER": "completedItem"}
ACTIONS = {
    "FILER": ({"status": "TODO"}, {"status": "TRASH"}),
    "STORER": ({"method": "APPEND"}, {"method": "MERGE"}),
}
TITLES = ("Flights to Rome", "Invoice of May", "Old receipts", "Dentist on Friday")
QUICK = ("--batch-size", 8, "--learning-rate", 3e-3, "--epochs", 2, "--no-quantization", "--json")


@pytest.fixture
def exported(api: Any, by: Any, tmp_path: Path) -> Any:
    """`exported(format, verdicts, kind)`: the file, of decisions as the app records and judges them."""
    from decisions.agents.services import create_notes_agents

    create_notes_agents(by=by)
    app = api("decisions:write", "feedback:write", "export:read")

    def write(format: str, verdicts: tuple[str, ...] = ("CONFIRMED", "CORRECTED"), kind: str = "FILER") -> Path:
        body: dict[str, Any] = BODIES[kind]
        for place in range(16):
            state = body["state"] | {ITEM[kind]: {"id": f"item-{place}", "title": f"{TITLES[place % 4]} {place}"}}
            action = body["action"] | ACTIONS[kind][place % 2] | {"confidence": 0.9}
            answer = app.post(f"{T}/decisions/record", body | {"state": state, "action": action, "itemId": f"i{place}"})
            assert answer.status_code == 201, answer.content
            judge(app, answer.json(), verdicts[place % len(verdicts)])
        call_command("calculate_rewards", "--agent-type", kind, stdout=io.StringIO())
        file = tmp_path / f"{kind}-{format}.jsonl"
        call_command(
            "export_training_data", "--agent-type", kind, "--output", str(file), "--format", format,
            stdout=io.StringIO(),
        )  # fmt: skip
        return file

    return write


def train(*arguments: object) -> dict[str, Any]:
    call_command("train", *map(str, arguments), stdout=(out := io.StringIO()), stderr=io.StringIO())
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def refused(*arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        call_command("train", *map(str, arguments), stdout=io.StringIO(), stderr=(said := io.StringIO()))
    assert ended.value.code == 2
    return said.getvalue().strip()


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_exports_make_a_tiny_model_and_train_on_over_it(exported: Any, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    first = tmp_path / "first"
    told = train("--data", exported("chat"), "--output", first, "--model", "tiny", "--method", "pretrain", *QUICK)
    assert told["rows"] == 8  # the right ones
    assert [warning for warning in told["warnings"] if "answers of the newest model" not in warning] == []  # whole
    folder = str(first / "model")
    base, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Flights"}], tokenize=False)
    assert "Flights" in chat and base.num_parameters() > 100_000
    assert "Base model: a new tiny model" in (first / "model" / "README.md").read_text()
    assert {path.name for path in first.iterdir()} == {"model", "run", "checkpoint-epoch-1", "checkpoint-epoch-2"}
    AutoModelForCausalLM.from_pretrained(first / "checkpoint-epoch-1")
    file = exported("completion", kind="STORER")
    output = tmp_path / "second"
    told = train("--data", file, "--output", output, "--model", folder, "--json")  # everything else by default
    assert (told["rows"], told["method"], told["steps"]) == (16, "reward_weighted", 12)
    assert told["chosen"][0] == "method reward_weighted: ppo cannot learn from text rows"
    assert told["estimate"]["memory_bytes"] > 0 and told["estimate"]["disk_bytes"] > 0
    config = json.loads((output / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (16, 32)
    for name in ("adapter", *(f"checkpoint-epoch-{epoch}" for epoch in (1, 2, 3))):
        PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), str(output / name))
        assert "Base model: a new tiny model" in (output / name / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.django_db
def test_what_an_export_lacks_is_refused_and_nothing_is_written(
    exported: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "ENGINE", (sys.executable, "-m", "training.engine"))  # refuses before it loads torch
    file, base, output = exported("completion", ("CONFIRMED",), "STORER"), tmp_path / "base", tmp_path / "out"
    base.mkdir()
    (base / "config.json").write_text("{}")
    asked = ("--data", file, "--output", output, "--model", base, "--no-quantization")
    others = "these methods can: pretrain, sft, reward_weighted, kto, grpo"
    assert refused(*asked, "--method", "ppo") == f"--method: ppo cannot learn from text rows; {others}"
    one_class = "rows.jsonl: method kto needs rows that were right and rows that were wrong"
    assert refused(*asked, "--method", "kto") == one_class
    groups = "texts of one prompt with different rewards, or a reward for fresh ones in the settings"
    assert refused(*asked, "--method", "grpo") == f"rows.jsonl: method grpo needs {groups}"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "{}", lines[0]]))
    told = refused(*asked, "--method", "sft").splitlines()
    assert [line.split(": ", 1)[0].rpartition(":")[2] for line in told] == ["2", "3"]
    asked = ("--data", exported("chat", ("CONFIRMED",)), *asked[2:])
    assert refused(*asked, "--method", "kto") == one_class
    assert refused(*asked, "--method", "dpo").startswith("--method: dpo cannot learn from logged rows; these methods")
    assert not output.exists()
