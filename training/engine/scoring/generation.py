"""Free generation: a model's greedy answers to prompts, without constraint to options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import score_in_batches
from training.engine.models.loading import Loaded


@dataclass(frozen=True, slots=True)
class Answers:
    """Without white space around them; `cut` of them had not come to their end."""

    texts: list[str]
    cut: int


@torch.no_grad()
def write_answers(attempt: Attempt, loaded: Loaded, prompts: Sequence[Sequence[int]], batch_size: int) -> Answers:
    """Encoded prompts → answers of at most `max_completion_tokens`. Raises Stopped between batches when asked to
    stop."""
    texts, cut = [""] * len(prompts), [False] * len(prompts)

    def write(batch: list[int]) -> None:
        padded = loaded.tokenizer.pad({"input_ids": [prompts[i] for i in batch]}, return_tensors="pt")
        with attempt.autocast(loaded.model):
            generated = loaded.model.generate(
                input_ids=padded["input_ids"].to(attempt.device),
                attention_mask=padded["attention_mask"].to(attempt.device),
                max_new_tokens=attempt.spec.max_completion_tokens,
                do_sample=False,
                pad_token_id=loaded.tokenizer.pad_token_id,
                eos_token_id=loaded.tokenizer.eos_token_id,
            )
        tokens = generated[:, padded["input_ids"].shape[1] :]
        written = loaded.tokenizer.batch_decode(tokens, skip_special_tokens=True)
        unended = (tokens != loaded.tokenizer.eos_token_id).all(1).tolist()  # as long as it may be
        for row, text, without_end in zip(batch, written, unended, strict=True):
            texts[row], cut[row] = text.strip(), without_end

    score_in_batches(attempt, [len(ids) for ids in prompts], batch_size, write)
    return Answers(texts, sum(cut))
