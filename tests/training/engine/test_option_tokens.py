"""Options of a base that came with its tokenizer: many of them become a token each, which begins as their mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_world import engine, read_result, write_run
from families import make_model
from pydantic import ValidationError

from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, build_tokenizer, load_for_training, load_model, load_tokenizer, save
from training.engine.models.option_tokens import MANY_OPTIONS, add_option_tokens
from training.engine.spec.run_spec import ModelSource, RunSpec

CPU = torch.device("cpu")
OPTIONS = [f"area_{n}_of_work" for n in range(MANY_OPTIONS)]
MANY = [*OPTIONS, "invoice"]
PROMPT = "the invoice of area_1_of_work is not for area_1_of_workers"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Knows no option but one, which is a common word."""
    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer([PROMPT, *["invoice"] * 20], [], 300).save_pretrained(folder)
    return folder


def base(folder: Path, family: str, tokenizer: Path, spare: int = 0) -> Loaded:
    """With rows for `spare` tokens more than the tokenizer has."""
    known = load_tokenizer(tokenizer)
    loaded = Loaded(make_model(family, len(known) + spare), known)
    save(loaded, folder)
    return loaded


@pytest.mark.parametrize(
    ("family", "spare"), [("gemma3", 0), ("llama", 0), ("llama", 64), ("phi", 0), ("olmo tied", 0)]
)
@torch.no_grad()
@pytest.mark.quick_cases(2)
def test_many_options_become_tokens_that_begin_as_their_mean(
    tmp_path: Path, tokenizer: Path, family: str, spare: int
) -> None:
    """Tied output layers and others, with a bias too, and models that have rows to spare."""
    before = base(tmp_path / "base", family, tokenizer, spare)
    loaded = load_for_training(ModelSource(path=str(tmp_path / "base")), None, CPU, options=MANY)
    scorer = ActionScorer(loaded.tokenizer, 64)
    assert ActionScorer(before.tokenizer, 64).trie(MANY).size > 0 == scorer.trie(MANY).size
    assert {len(ids) for ids in scorer.answer_ids(MANY)} == {2}
    new = scorer.answer_ids(["area_7_of_work"])[0][0]
    old = before.tokenizer("area_7_of_work", add_special_tokens=False)["input_ids"]
    for part in ("get_input_embeddings", "get_output_embeddings"):
        rows, was = getattr(loaded.model, part)(), getattr(before.model, part)()
        assert torch.allclose(rows.weight[new], was.weight[old].mean(0), atol=1e-6)
        assert torch.equal(rows.weight[: len(before.tokenizer)], was.weight[: len(before.tokenizer)])
        if getattr(rows, "bias", None) is not None:
            assert torch.allclose(rows.bias[new], was.bias[old].mean(), atol=1e-6)
    # Saved and loaded it is the same model, and a word that only begins like an option is none.
    save(loaded, tmp_path / "grown")
    again = ActionScorer(load_tokenizer(tmp_path / "grown"), 64)
    prompts = again.encode([PROMPT])
    assert again.tokenizer.decode(again.tokenizer(PROMPT, add_special_tokens=False)["input_ids"]) == PROMPT
    told = again.log_probabilities(load_model(tmp_path / "grown", CPU, torch.float32), prompts, [MANY])
    assert torch.allclose(told, scorer.log_probabilities(loaded.model, prompts, [MANY]), atol=1e-5)
    assert add_option_tokens(loaded.model, loaded.tokenizer, MANY) == 0


def test_few_options_stay_what_they_are(tmp_path: Path, tokenizer: Path) -> None:
    before = base(tmp_path / "base", "llama", tokenizer)
    loaded = load_for_training(ModelSource(path=str(tmp_path / "base")), None, CPU, options=OPTIONS)
    assert len(loaded.tokenizer) == len(before.tokenizer)
    assert loaded.model.get_input_embeddings().weight.shape == before.model.get_input_embeddings().weight.shape


@pytest.mark.slow
def test_a_run_gives_its_options_tokens_and_goes_on_with_them(tmp_path: Path, tokenizer: Path) -> None:
    base(tmp_path / "base", "llama", tokenizer)
    rows = [{"id": str(n), "prompt": f"note {n % 9}", "options": MANY, "answer": MANY[n % 9]} for n in range(64)]
    spec: dict[str, Any] = {
        "method": "pretrain",
        "base": {"path": str(tmp_path / "base")},
        "option_tokens": True,
        "freeze_embeddings": True,
        "optimiser": {"learning_rate": 1e-2, "epochs": 15, "batch_size": 16},
        "evaluate": {"free_rows": 16},
    }
    first = write_run(tmp_path / "first", spec, train=rows, heldout=rows)
    assert engine(first) == 0
    scores = read_result(first)["scores"]
    assert scores["trained"]["accuracy"] > 0.5 > scores["base"]["accuracy"]
    made = first / "attempts" / "1" / "model"
    assert len(load_tokenizer(made)) == len(load_tokenizer(tokenizer)) + len(OPTIONS)
    # A free answer is the option's text, though it is one token.
    assert scores["trained"]["valid_share"] > 0.5

    spec |= {"method": "sft", "base": {"path": str(made)}}
    second = write_run(tmp_path / "second", spec, train=rows, heldout=rows)
    assert engine(second) == 0
    config = json.loads((second / "attempts" / "1" / "model" / "config.json").read_text())
    assert config["vocab_size"] == len(load_tokenizer(made))


def test_an_adapter_keeps_the_vocabulary_of_its_base() -> None:
    spec = {"run_id": "x", "method": "sft", "base": {"path": "/base"}, "data": {"train": "rows"}, "option_tokens": True}
    RunSpec.model_validate(spec)
    with pytest.raises(ValidationError, match="option_tokens: an adapter keeps its base's vocabulary"):
        RunSpec.model_validate(spec | {"lora": {"r": 2}})
