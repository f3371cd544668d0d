"""Which weights a folder that is given to `evaluate` and `export_model` stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.management.commands.evaluate import find_model


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_the_output_folder_of_train_stands_for_the_weights_in_it(tmp_path: Path) -> None:
    faults: list[str] = []
    base = write(tmp_path / "first" / "model", "config.json", "{}")
    named = json.dumps({"base_model_name_or_path": str(base)})
    adapter = write(tmp_path / "second" / "adapter", "adapter_config.json", named)
    whole = find_model(str(tmp_path / "first"), "", None, faults)
    over = find_model(str(tmp_path / "second"), "", None, faults)
    assert whole is not None and (whole.path, whole.adapter) == (str(base), None)
    assert over is not None and (over.path, over.adapter) == (str(base), str(adapter))
    assert faults == []


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("notes.txt", "", "holds no model"),
        ("adapter_config.json", "{", "cannot be read"),
        ("adapter_config.json", "[]", "cannot be read"),
        ("adapter_config.json", '{"base_model_name_or_path": 5}', "must be a text"),
        ("adapter_config.json", "{}", "does not name its base"),
    ],
)
def test_a_folder_without_usable_weights_is_refused(tmp_path: Path, name: str, content: str, fault: str) -> None:
    faults: list[str] = []
    assert find_model(str(write(tmp_path / "given", name, content)), "", None, faults) is None
    assert len(faults) == 1 and fault in faults[0]
