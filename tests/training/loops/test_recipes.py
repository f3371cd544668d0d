"""How loops train: what follows from the base and the number of rows."""

from __future__ import annotations

from training.rows.labelled_texts import Example
from training.runs.defaults.recipes import base_settings, ceiling_settings, for_tiny, prompt_tokens, round_settings


def test_the_ceiling_is_trained_as_the_last_round_is() -> None:
    last, ceiling = round_settings("tiny", 10_500), ceiling_settings("tiny", 10_500)
    assert ceiling["optimiser"] == last["optimiser"] and ceiling["pretrain"]["calibration_share"] == 0
    passes = [round_settings("tiny", rows)["optimiser"]["epochs"] for rows in (1000, 3000, 5000)]
    assert passes == [12, 6, 3]
    assert [base_settings("tiny", rows)["optimiser"]["epochs"] for rows in (50, 500, 1800)] == [40, 12, 8]
    assert "lora" in round_settings("a/real-model", 100)
    assert "lora" not in ceiling_settings("a/real-model", 100)
    # Only a pretrained base has embeddings that are worth keeping; an adapter keeps them anyway.
    assert round_settings("a/real-model", 100, lora=False)["freeze_embeddings"]
    assert not any("freeze_embeddings" in make("tiny", 100) for make in (base_settings, round_settings))
    # Options become tokens while every weight is trained; an adapter keeps the vocabulary that it finds.
    assert base_settings("a/real-model", 100)["option_tokens"]
    assert "option_tokens" not in round_settings("a/real-model", 100)


def test_prompts_get_room_for_nearly_all_texts() -> None:
    short = [Example("row-1", "two words", "a")] * 100
    assert prompt_tokens(short) == 40
    assert prompt_tokens([Example("row-1", "word " * 60, "a")] * 100) == 96
    assert prompt_tokens([Example("row-1", "word " * 900, "a")] * 100) == 160


def test_a_loop_changes_the_optimiser_of_the_tiny_model_alone() -> None:
    changed = for_tiny(round_settings("tiny", 5000), "tiny", epochs=4, token_dropout=0.1)
    assert changed["optimiser"] == {"learning_rate": 2e-3, "epochs": 4, "token_dropout": 0.1}
    real = round_settings("a/real-model", 5000)
    assert for_tiny(real, "a/real-model", epochs=4) == real
