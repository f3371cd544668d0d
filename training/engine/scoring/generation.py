"""Free generation: a model's greedy answers to prompts, without constraint to options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import score_in_batches
from training.engine.models.chats import find_ends
from training.engine.models.loading import Loaded


@dataclass(frozen=True, slots=True)
class Answers:
    """Without white space around them; `cut` of them had not come to their end. `tokens`: what was written, and its
    end, which those that were cut have as well."""

    texts: list[str]
    tokens: list[list[int]]
    cut: int


@torch.no_grad()
def write_answers(attempt: Attempt, loaded: Loaded, prompts: Sequence[Sequence[int]], batch_size: int) -> Answers:
    """Encoded prompts → answers of at most `max_completion_tokens`. Raises Stopped between batches when asked to
    stop."""
    texts, cut = [""] * len(prompts), [False] * len(prompts)
    ids: list[list[int]] = [[] for _ in prompts]
    ends = sorted(find_ends(loaded.model, loaded.tokenizer))

    def write(batch: list[int]) -> None:
        padded = loaded.tokenizer.pad({"input_ids": [prompts[i] for i in batch]}, return_tensors="pt")
        with attempt.autocast(loaded.model):
            generated = loaded.model.generate(
                input_ids=padded["input_ids"].to(attempt.device),
                attention_mask=padded["attention_mask"].to(attempt.device),
                max_new_tokens=attempt.spec.max_completion_tokens,
                do_sample=False,
                pad_token_id=loaded.tokenizer.pad_token_id,
                eos_token_id=ends,
            )
        tokens = [_up_to_end(row, ends) for row in generated[:, padded["input_ids"].shape[1] :].tolist()]
        written = loaded.tokenizer.batch_decode(tokens, skip_special_tokens=True)
        for row, text, own in zip(batch, written, tokens, strict=True):
            cut[row] = own[-1] not in ends  # as long as it may be
            texts[row], ids[row] = text.strip(), [*own, loaded.tokenizer.eos_token_id] if cut[row] else own

    score_in_batches(attempt, [len(ids) for ids in prompts], batch_size, write)
    return Answers(texts, ids, sum(cut))


def _up_to_end(tokens: list[int], ends: Sequence[int]) -> list[int]:
    """With the first of the tokens that end an answer; padding follows it."""
    return tokens[: next((place for place, token in enumerate(tokens) if token in ends), len(tokens)) + 1]
