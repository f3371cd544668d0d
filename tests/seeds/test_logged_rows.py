"""The notes app's commands on the logged rows of an agent with options of its own, one after the other."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.engine_task import labelled

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def run(command: str, *arguments: object) -> str:
    output = io.StringIO()
    call_command(command, *map(str, arguments), stdout=output, stderr=io.StringIO())
    return output.getvalue()


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_train_wrote_is_evaluated_and_exported_by_the_same_name(
    agent: Any, tiny_run: Path, tmp_path: Path
) -> None:
    log = [
        {name: row[name] for name in ("id", "prompt", "options")}
        | {"action": row["answer"], "propensity": 0.5, "reward": 1.0}
        for row in labelled(96, 3)
    ]
    data, test_data = write(tmp_path / "filer.jsonl", log), write(tmp_path / "filer-test.jsonl", labelled(16, 4))
    base, model, results = tiny_run / "attempts" / "1" / "model", tmp_path / "ocd-filer-v1", tmp_path / "results.json"
    flags = ("--method", "posterior", "--epochs", 6, "--batch-size", 8, "--learning-rate", 5e-3, "--no-quantization")
    run("train", "--data", data, "--output", model, "--model", base, *flags)

    run("evaluate", "--model", model, "--test-data", test_data, "--output", results)
    scores = json.loads(results.read_text())
    assert (scores["model"], scores["agent"], scores["rows"]) == (str(model), "filer", 16)
    assert scores["accuracy"] > 0.5 and scores["error_rate"] == pytest.approx(1 - scores["accuracy"])
    assert scores["average_reward"] == pytest.approx(0.375 + 0.375 * scores["accuracy"])

    lines = run("export_model", "--model", model, "--output", tmp_path / "merged", "--merge", "--json").splitlines()
    assert len(lines) == 1 and json.loads(lines[0])["plan"]["format"] == "merged"
    assert (tmp_path / "merged" / "model.safetensors").is_file()
    run("export_model", "--model", model, "--output", tmp_path / "lora", "--format", "lora")
    assert (tmp_path / "lora" / "adapter_config.json").is_file()
