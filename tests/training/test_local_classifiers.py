"""`manage.py train` of classifiers: of words and over the folder of a sentence encoder, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tiny_encoder import make_encoder
from tests.training.test_local_runs import ask, labelled, refused, write
from training.management.commands.evaluate import find_model


@pytest.mark.slow
def test_a_file_trains_a_classifier_of_words(tmp_path: Path) -> None:
    rows, output = write(tmp_path / "rows.jsonl", labelled(32)), tmp_path / "out"
    told = ask("train", "--data", rows, "--output", output, "--method", "classifier", "--json")
    assert (told["method"], told["rows"], told["output"]) == ("classifier", 32, str(output / "classifier"))
    assert json.loads((output / "run" / "spec.json").read_text())["base"] == {"words": True}
    card = (output / "classifier" / "README.md").read_text()
    assert "classifier.json" in card and "AutoModelForCausalLM" not in card and "library_name: transformers" not in card
    by_name = ask("train", "--data", rows, "--output", tmp_path / "named", "--model", "words", "--json")
    assert (by_name["method"], by_name["weights_sha256"]) == ("classifier", told["weights_sha256"])


@pytest.mark.slow
def test_a_file_trains_a_classifier_over_the_folder_of_an_encoder(tmp_path: Path) -> None:
    rows, encoder = write(tmp_path / "rows.jsonl", labelled(32)), make_encoder(tmp_path / "encoder")
    output = tmp_path / "out"
    flags = ("--method", "classifier", "--model", encoder, "--epochs", 7, "--set", '{"threads": 1}', "--json")
    assert ask("train", "--data", rows, "--output", output, *flags)["output"] == str(output / "classifier")
    spec = json.loads((output / "run" / "spec.json").read_text())
    assert (spec["base"], spec["classifier"], spec["threads"]) == ({"path": str(encoder)}, {"epochs": 7}, 1)


def test_what_no_classifier_can_begin_with_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rows, output = write(tmp_path / "rows.jsonl", labelled(4)), tmp_path / "out"
    language = tmp_path / "language"
    language.mkdir()
    (language / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (language / "model.safetensors").touch()
    for model, method, says in (
        ("words", "sft", "--model: words is no model, and sft needs one"),
        ("tiny", "classifier", "classifier cannot begin with a new tiny model"),
        (
            "sentence-transformers/all-MiniLM-L6-v2",
            "classifier",
            "--model: sentence-transformers/all-MiniLM-L6-v2 is no",
        ),
        (language, "classifier", f"--model: {language} is a language model"),
    ):
        assert says in refused("train", "--data", rows, "--output", output, "--model", model, "--method", method)
    flags = ("--batch-size", 8, "--learning-rate", 0.1, "--preset", "reward-weighted-lora")
    said = refused("train", "--data", rows, "--output", output, "--method", "classifier", *flags)
    assert [line.split(":")[0] for line in said.splitlines()] == ["--batch-size", "--learning-rate", "--preset"]
    assert not output.exists()


@pytest.mark.parametrize("inside", ["", "classifier"])
def test_a_classifier_in_a_folder_is_no_model_to_evaluate_or_import(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    (tmp_path / inside / "classifier.json").touch()
    faults: list[str] = []
    assert find_model(str(tmp_path), "", None, faults) is None
    assert faults == [
        f"--model: {tmp_path} is a classifier in a folder; a run of an instance makes one that is a version"
    ]


def test_an_encoder_in_a_folder_is_no_model_to_evaluate_or_import(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    faults: list[str] = []
    assert find_model(str(tmp_path), "", None, faults) is None and "is a sentence encoder" in faults[0]
