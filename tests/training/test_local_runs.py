"""`manage.py train`: from a file to weights, in a folder of one's own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from training.hardware import this_machine, why_no_quantisation
from training.local_runs import read_rows
from training.models import DatasetSnapshot

WORDS = {"travel": "flight hotel visa beach", "finance": "invoice salary loan tax"}
OPTIONS = list(WORDS)


def labelled(count: int) -> list[dict[str, Any]]:
    texts = [(word, name) for name, words in WORDS.items() for word in words.split()]
    rows = [texts[n % len(texts)] for n in range(count)]
    return [{"id": str(n), "prompt": f"{w} {n}", "options": OPTIONS, "answer": a} for n, (w, a) in enumerate(rows)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ask(command: str, *arguments: object) -> dict[str, Any]:
    output = io.StringIO()
    call_command(command, *map(str, arguments), stdout=output, stderr=io.StringIO())
    told: dict[str, Any] = json.loads(output.getvalue())
    return told


def refused(command: str, *arguments: object) -> str:
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command(command, *map(str, arguments), stdout=io.StringIO(), stderr=said)
    assert ended.value.code == 2
    return said.getvalue()


@pytest.mark.slow
def test_a_file_trains_a_model_then_an_adapter_over_it(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", labelled(64))
    quick = ("--learning-rate", 3e-3, "--batch-size", 8, "--no-quantization", "--json")
    first = tmp_path / "first"
    told = ask("train", "--data", rows, "--output", first, "--model", "tiny", "--method", "pretrain", *quick)
    assert (told["rows"], told["output"]) == (64, str(first / "model"))
    assert {path.name for path in first.iterdir()} == {"model", "run", *(f"checkpoint-epoch-{n}" for n in (1, 2, 3))}
    log = [
        {**{name: row[name] for name in ("id", "prompt", "options")}, "action": row["answer"], "propensity": 0.5}
        | {"reward": 1.0}
        for row in labelled(32)
    ]
    logged = write(tmp_path / "log.jsonl", log)
    second = tmp_path / "second"
    asked = ("--output", second, "--model", first / "model", "--method", "reward_weighted")
    told = ask("train", "--data", logged, *asked, *quick)
    config = json.loads((second / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(first / "model") and (config["r"], config["lora_alpha"]) == (16, 32)
    # A finished run is not trained again, and another one does not take its folder.
    assert ask("train", "--data", logged, *asked, *quick)["weights_sha256"] == told["weights_sha256"]
    other = ("--output", second, "--model", first / "model", "--method", "posterior")
    assert "holds something else" in refused("train", "--data", logged, *other, *quick)


def test_what_cannot_be_trained_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", labelled(4))
    output = tmp_path / "out"
    if why_no_quantisation(this_machine()):
        assert "--no-quantization: give it" in refused("train", "--data", rows, "--output", output)
    tiny = ("--model", "tiny", "--no-quantization")
    assert "cannot begin with a new tiny model" in refused("train", "--data", rows, "--output", output, *tiny)
    tiny = (*tiny, "--method", "pretrain")
    assert "No such file" in refused("train", "--data", tmp_path / "none", "--output", output, *tiny)
    nonsense = write(tmp_path / "nonsense.jsonl", [{"a": 1}])
    assert "has no prompt with a completion" in refused("train", "--data", nonsense, "--output", output, *tiny)
    assert not output.exists()


@pytest.mark.django_db
def test_an_agent_without_rewarded_decisions_or_that_is_not_there_trains_nothing(agent: Any, tmp_path: Path) -> None:
    flags = ("--output", tmp_path / "out", "--method", "posterior", "--no-quantization")
    assert "name one of: filer" in refused("train", "--agent-type", "STORER", *flags)
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("train", *map(str, ("--agent-type", "FILER", *flags)), stderr=said)
    assert ended.value.code == 1 and said.getvalue()
    assert not (tmp_path / "out").exists() and not DatasetSnapshot.objects.exists()


def test_each_file_is_read_as_what_it_holds(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "{}"}, {"role": "assistant", "content": "work"}], "reward": -1.0}
    pair = {"id": "1", "prompt": "x", "chosen": "a", "rejected": "b"}
    kinds = [read_rows(write(tmp_path / "rows.jsonl", rows)).kind for rows in ([chat], [pair], labelled(1))]
    assert kinds == ["text", "preferences", "labelled"]
