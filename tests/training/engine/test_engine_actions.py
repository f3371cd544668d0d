"""One forward over the trie gives what one forward an option would give, for every kind of model it is used with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from families import WINDOW, make_model

from training.engine.models.actions import NO_OPTION, ActionScorer, OptionError, parts_by_length
from training.engine.models.loading import Loaded, attach_adapter, load_for_training, load_model, load_tokenizer, save
from training.engine.spec.run_spec import ModelSource
from training.engine.spec.settings import Lora

CPU = torch.device("cpu")
PROMPTS = ["invoice from the bank", "a scenic detour for the weekend roadtrip and then some", "", "x " * 60]
FOLDERS = ("travel", "travel plans", "work", "work at home", "health", "travel plans with sam")
OPTIONS = [FOLDERS, FOLDERS[::-1], ("work", "health"), ("travel plans", "travel", "travel plans with sam")]


def naive(scorer: ActionScorer, model: Any, prompt: list[int], options: tuple[str, ...]) -> list[float]:
    """An option's log-probability token by token, over the tokens that some option allows there."""
    sequences = scorer.answer_ids(options)
    result = []
    for sequence in sequences:
        logits = model(input_ids=torch.tensor([[*prompt, *sequence]])).logits[0].float()
        log_p = 0.0
        for depth, token in enumerate(sequence):
            allowed = sorted({other[depth] for other in sequences if other[:depth] == sequence[:depth]})
            log_p += logits[len(prompt) - 1 + depth][allowed].log_softmax(-1)[allowed.index(token)].item()
        result.append(log_p)
    return result


def assert_exact(scorer: ActionScorer, scored: torch.Tensor, models: list[Any]) -> None:
    for row, (prompt, options) in enumerate(zip(scorer.encode(PROMPTS), OPTIONS, strict=True)):
        expected = naive(scorer, models[row], prompt, options)
        assert scored[row, : len(options)].tolist() == pytest.approx(expected, abs=2e-4)
        assert scored[row, : len(options)].exp().sum().item() == pytest.approx(1.0, abs=1e-5)
        assert (scored[row, len(options) :] == NO_OPTION).all()


@pytest.fixture(scope="module")
def scorer(base_folder: Path) -> ActionScorer:
    return ActionScorer(load_tokenizer(base_folder), max_prompt_tokens=32)


@torch.no_grad()
@pytest.mark.parametrize(("worth", "parts"), [(1, 4), (10**6, 1)])
def test_scores_equal_one_forward_an_option(
    scorer: ActionScorer, base_folder: Path, monkeypatch: pytest.MonkeyPatch, worth: int, parts: int
) -> None:
    """Whether or not rows of other lengths share a forward."""
    monkeypatch.setattr("training.engine.models.actions.WORTH_A_FORWARD", worth)
    assert len(parts_by_length([len(ids) for ids in scorer.encode(PROMPTS)])) == parts
    model = load_model(base_folder, CPU)
    scored = scorer.log_probabilities(model, scorer.encode(PROMPTS), OPTIONS)
    assert_exact(scorer, scored, [model] * 4)


@torch.no_grad()
@pytest.mark.parametrize("family", ["qwen2", "llama", "mistral", "gemma2", "gemma3"])
def test_scores_are_exact_for_every_family(scorer: ActionScorer, family: str) -> None:
    """All but Llama slide a window that is shorter than the prompts, Qwen 2 and the Gemmas on one of their two layers;
    Gemma 2 caps its logits, too."""
    model = make_model(family, len(scorer.tokenizer))
    prompts = scorer.encode(PROMPTS)
    assert max(map(len, prompts)) > 3 * WINDOW
    assert_exact(scorer, scorer.log_probabilities(model, prompts, OPTIONS), [model] * 4)


def test_a_batch_is_parted_where_that_saves_padding() -> None:
    assert parts_by_length([9, 10, 9, 10]) == [[0, 2, 1, 3]]  # a forward costs more than two tokens
    assert parts_by_length([100, 10, 11, 50, 10]) == [[1, 4, 2], [3], [0]]


def test_layers_that_take_no_tree_read_one_path_after_the_other(scorer: ActionScorer) -> None:
    """The numbers are the same, and so are the gradients."""
    model = make_model("llama", len(scorer.tokenizer))
    prompts, found = scorer.encode(PROMPTS), []
    for kinds in (None, ["full_attention", "linear_attention"]):
        model.config.layer_types = kinds
        model.zero_grad()
        log_p = scorer.log_probabilities(model, prompts, OPTIONS)
        log_p.exp()[:, 0].sum().backward()
        found.append((log_p.detach(), model.model.layers[0].mlp.up_proj.weight.grad.clone()))
    for at_once, by_paths in zip(*found, strict=True):
        torch.testing.assert_close(at_once, by_paths, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def adapters(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two adapters with random, far from zero weights."""
    folders = []
    for seed in (1, 2):
        loaded = load_for_training(ModelSource(path=str(base_folder)), Lora(r=4), CPU)
        generator = torch.Generator().manual_seed(seed)
        for parameter in loaded.model.parameters():
            if parameter.requires_grad:
                parameter.data.normal_(std=0.1, generator=generator)
        folder = tmp_path_factory.mktemp("adapters") / str(seed)
        save(loaded, folder)
        folders.append(folder)
    return folders


@torch.no_grad()
def test_every_row_may_have_its_own_adapter(scorer: ActionScorer, base_folder: Path, adapters: list[Path]) -> None:
    mixed = load_model(base_folder, CPU)
    alone = []
    for name, folder in zip(("one", "two"), adapters, strict=True):
        mixed = attach_adapter(mixed, folder, name)
        alone.append(attach_adapter(load_model(base_folder, CPU), folder, "x"))
    prompts = scorer.encode(PROMPTS)
    scored = scorer.log_probabilities(mixed.eval(), prompts, OPTIONS, ["two", "one", "__base__", "one"])
    plain = load_model(base_folder, CPU)
    assert_exact(scorer, scored, [alone[1], alone[0], plain, alone[0]])
    assert not torch.allclose(scored, scorer.log_probabilities(plain, prompts, OPTIONS), atol=1e-2)


@torch.no_grad()
def test_a_failed_forward_leaves_no_adapter_behind(
    scorer: ActionScorer, base_folder: Path, adapters: list[Path]
) -> None:
    """peft's hooks would stay on the layers and give the next batch the adapters of this one."""
    model = attach_adapter(load_model(base_folder, CPU), adapters[0], "one").eval()
    prompts = scorer.encode(PROMPTS)
    before = scorer.log_probabilities(model, prompts, OPTIONS)
    with pytest.raises(IndexError):
        scorer.log_probabilities(model, [[10**6]], [OPTIONS[0]], ["__base__"])
    assert torch.equal(scorer.log_probabilities(model, prompts, OPTIONS), before)


def test_gradients_reach_the_weights_even_for_a_single_option(scorer: ActionScorer, base_folder: Path) -> None:
    model = load_model(base_folder, CPU)
    log_p = scorer.log_probabilities(model, scorer.encode(["a note"]), [("work",)])
    assert log_p.tolist() == [[0.0]]
    log_p.sum().backward()


@pytest.mark.parametrize("options", [(), ("work", "work")])
def test_options_must_be_told_apart(scorer: ActionScorer, base_folder: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(OptionError):
        scorer.log_probabilities(load_model(base_folder, CPU), scorer.encode(["a note"]), [options])


def test_a_reloaded_tokenizer_gives_the_same_ids(scorer: ActionScorer, tmp_path: Path) -> None:
    """The folder says Qwen2, whose class replaces the splitting that tokenizer.json holds."""
    hard = ["it's 1234,5\n\n\nfoo  bar\t", "漢字 é ﬁ 😀", "  a_b-c  "]
    scorer.tokenizer.save_pretrained(tmp_path)
    reloaded = load_tokenizer(tmp_path)
    assert reloaded(hard)["input_ids"] == scorer.tokenizer(hard)["input_ids"]


def test_saving_and_loading_keep_the_scores(scorer: ActionScorer, base_folder: Path, tmp_path: Path) -> None:
    model = load_model(base_folder, CPU)
    save(Loaded(model, scorer.tokenizer), tmp_path / "copy")
    prompts = scorer.encode(PROMPTS)
    with torch.no_grad():
        again = scorer.log_probabilities(load_model(tmp_path / "copy", CPU), prompts, OPTIONS)
        assert torch.equal(again, scorer.log_probabilities(model, prompts, OPTIONS))
