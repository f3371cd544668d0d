"""`manage.py export_model`: folders for other programs, whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from models_registry.models import ModelVersion
from tools.factories import AgentVersionFactory


@pytest.mark.slow
@pytest.mark.django_db
def test_a_version_is_written_for_ollama_and_compared(
    base_version: ModelVersion, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, folder = base_version.registered_model.agents.get(), tmp_path / "out" / "ollama"
    given = ("export_model", "--model", "filer:1", "--output", str(folder), "--format", "ollama", "--json")
    AgentVersionFactory(agent=agent, max_prompt_tokens=100_000)
    with pytest.raises(SystemExit) as ended:
        call_command(*given, "--quantization", "Q8_0")
    assert ended.value.code == 3 and "choose one with more" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["parity.json"]
    assert "choose one with more" in json.loads((folder / "parity.json").read_text())["parity"]["refusals"][0]
    (folder / "parity.json").unlink()

    AgentVersionFactory(agent=agent, system_prompt="Answer with a folder.", temperature=0.5)
    call_command(*given, "--quantization", "Q8_0", "--profile", "small")
    told = json.loads(capsys.readouterr().out)
    assert told["parity"]["equal_decisions"] >= 0.99 and told["parity"]["prompts"] == "fallback"
    assert json.loads((folder / "parity.json").read_text()) == told
    files = {"model-Q8_0.gguf", "Modelfile", "hosting_profile.json", "parity.json"}
    assert {path.name for path in folder.iterdir()} == files
    lines = (folder / "Modelfile").read_text().splitlines()
    assert {"FROM ./model-Q8_0.gguf", "PARAMETER temperature 0.5", 'SYSTEM """Answer with a folder."""'} <= set(lines)
    context = json.loads((folder / "hosting_profile.json").read_text())["context"]
    assert f"PARAMETER num_ctx {context}" in lines
    assert [path.name for path in folder.parent.iterdir()] == ["ollama"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (["--model", "nothing/here"], ["--model: 'nothing/here' is neither a folder nor a version"]),
        (
            ["--model", "filer:1", "--format", "lora", "--profile", "busy"],
            [
                "--format: filer:1 has no adapter, its weights are whole",
                "--profile: is only for --format ollama; leave it out",
            ],
        ),
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
