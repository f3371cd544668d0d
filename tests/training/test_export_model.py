"""`manage.py export_model`: folders for other programs, whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from models_registry.models import ModelVersion


@pytest.mark.slow
@pytest.mark.django_db
def test_a_version_is_written_and_compared(
    base_version: ModelVersion, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out" / "merged"
    call_command("export_model", "--model", "filer:1", "--output", str(folder), "--merge", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["parity"]["equal_decisions"], told["parity"]["prompts"]) == (1.0, "fallback")
    assert json.loads((folder / "parity.json").read_text()) == told
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["merged"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (["--model", "nothing/here"], ["--model: 'nothing/here' is neither a folder nor a version"]),
        (["--model", "filer:1", "--format", "lora"], ["--format: filer:1 has no adapter, its weights are whole"]),
        (
            ["--model", "filer:1", "--format", "onnx", "--merge", "--quantization", "Q8_0"],
            ["--merge: merges weights, and --format onnx is another format", "--quantization: merged is not quantised"],
        ),
    ],
)
def test_every_fault_is_named_and_nothing_is_written(
    base_version: ModelVersion, tmp_path: Path, capsys: Any, arguments: list[str], faults: list[str]
) -> None:
    output = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        call_command("export_model", *arguments, "--output", str(output))
    said = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and len(said) == len(faults)
    assert all(line.startswith(fault) for line, fault in zip(said, faults, strict=True)), said
    assert not output.exists()
