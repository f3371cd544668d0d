"""Folders that only look like sentence encoders: each is refused with a reason, and none is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.engine.spec.base_files import find_encoder_fault, is_sentence_encoder
from training.runs.base_models import why_not_for

DEEP = "[" * 200_000
OWN = "sentence_transformers.models.Transformer"


def lay_out(folder: Path, **files: str) -> Path:
    (folder / "model.safetensors").touch()
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        (DEEP, "cannot be read (RecursionError)"),
        ("null", "cannot be read (TypeError)"),
        ('["Transformer"]', "cannot be read (TypeError)"),
        ('[{"type": "os.path"}]', "os.path, which is not part of sentence-transformers"),
        (json.dumps([{"type": OWN, "path": "../another"}]), "../another, which is outside of it"),
        (json.dumps([{"type": OWN, "path": "/etc"}]), "/etc, which is outside of it"),
    ],
    ids=["deep", "null", "texts", "foreign", "beside", "absolute"],
)
def test_modules_that_are_none_are_refused(tmp_path: Path, modules: str, says: str) -> None:
    fault = find_encoder_fault(lay_out(tmp_path, modules=modules, config="{}"))
    assert fault is not None and says in fault
    assert why_not_for("classifier", str(tmp_path), tmp_path) == fault  # before a run is queued


def test_modules_in_the_folder_are_taken(tmp_path: Path) -> None:
    modules = json.dumps([{"type": OWN, "path": ""}, {"type": OWN, "path": "1_Pooling"}])
    assert find_encoder_fault(lay_out(tmp_path, modules=modules)) is None


@pytest.mark.parametrize(
    "config",
    [DEEP, "[]", '{"architectures": 5}', '{"architectures": "BertModel"}', "{}"],
    ids=["deep", "list", "number", "text", "none"],
)
def test_a_config_that_names_no_architectures_is_no_encoder(tmp_path: Path, config: str) -> None:
    assert not is_sentence_encoder(lay_out(tmp_path, config=config))


@pytest.mark.parametrize(
    ("architecture", "is_encoder"),
    [
        ("BertModel", True),
        ("XLMRobertaForMaskedLM", True),
        ("GPT2LMHeadModel", False),
        ("GPT2DoubleHeadsModel", False),
        ("Qwen2ForCausalLM", False),
    ],
)
def test_a_class_with_a_head_that_writes_is_no_encoder(architecture: str, is_encoder: bool, tmp_path: Path) -> None:
    assert is_sentence_encoder(lay_out(tmp_path, config=json.dumps({"architectures": [architecture]}))) is is_encoder
