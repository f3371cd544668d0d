"""Supervised fine-tuning on texts, through TRL's SFTTrainer. Method `sft` of rows of text.

    loss = − 1/n Σ_t log p(y_t | x, y_<t)        over the n tokens of all completions y of a batch

x is the prompt as the user's turn of the chat template, y the completion with the end of its turn. Learnt from are the
texts that are right, as `kto` tells them from wrong ones; where nothing is known of any text, all of them.
"""

from __future__ import annotations

from trl import SFTConfig, SFTTrainer

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.models.loading import Loaded
from training.engine.rows.texts import find_right_texts
from training.engine.text.bridge import Conversations, common_arguments, make_dataset, run_trainer, share_of_batch
from training.engine.text.parts import parts_of


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on the right texts."""
    chats = Conversations(attempt, loaded)
    right = find_right_texts(data.texts, attempt.spec.kto.right_from)
    rows = chats.keep_fitting(right, [(row.completion,) for row in right])
    prompts = chats.prompts(rows)
    completions = [chats.completion(row.completion) for row in rows]
    parts = parts_of(attempt, share_of_batch(attempt, len(rows)))
    trainer = SFTTrainer(
        model=loaded.model,
        args=SFTConfig(**common_arguments(attempt, loaded, parts), max_length=chats.longest_chat),
        train_dataset=make_dataset(prompt=prompts, completion=completions),
        processing_class=loaded.tokenizer,
    )
    return run_trainer(attempt, loaded, trainer, parts, len(rows), "learning from right texts (SFT)")
