"""Free generation: a model's greedy answers to prompts, without constraint to options."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from training.engine.attempt import Attempt
from training.engine.memory import score_in_batches
from training.engine.models import Loaded


@torch.no_grad()
def write_answers(attempt: Attempt, loaded: Loaded, prompts: Sequence[Sequence[int]], batch_size: int) -> list[str]:
    """Encoded prompts → answers of at most `max_completion_tokens`, without white space around them. Raises Stopped
    between batches when asked to stop."""
    texts = [""] * len(prompts)

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
        written = loaded.tokenizer.batch_decode(generated[:, padded["input_ids"].shape[1] :], skip_special_tokens=True)
        for row, text in zip(batch, written, strict=True):
            texts[row] = text.strip()

    score_in_batches(attempt, [len(ids) for ids in prompts], batch_size, write)
    return texts
