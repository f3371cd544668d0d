"""Supervised fine-tuning on texts, through TRL's SFTTrainer. Method `sft` of rows of text.

    loss = − 1/n Σ_t log p(y_t | x, y_<t)        over the n tokens of all completions y of a batch

x is the chat as the template writes it, up to where the answer begins, y the reply with the end of its turn: the loss
is on the assistant's turn alone. Learnt from are the texts that are right, as `kto` tells them from wrong ones; where
nothing is known of any text, all of them.
"""

from __future__ import annotations

from trl import SFTConfig, SFTTrainer

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.models.loading import Loaded
from training.engine.rows.texts import find_right_texts
from training.engine.text.bridge import Conversations, common_arguments, make_dataset, run_trainer, share_of_batch
from training.engine.text.parts import parts_of

NOT_LEARNT = -100
"""In the place of a token that the loss leaves out."""


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on the right texts."""
    chats = Conversations(attempt, loaded)
    right = find_right_texts(data.texts, attempt.spec.kto.right_from)
    lessons = chats.read_fitting(right)
    parts = parts_of(attempt, share_of_batch(attempt, len(lessons)))
    trainer = SFTTrainer(
        model=loaded.model,
        args=SFTConfig(**common_arguments(attempt, loaded, parts), max_length=None),
        train_dataset=make_dataset(
            input_ids=[[*one.prompt_ids, *one.reply_ids] for one in lessons],
            labels=[[*[NOT_LEARNT] * len(one.prompt_ids), *one.reply_ids] for one in lessons],
        ),
        processing_class=loaded.tokenizer,
    )
    return run_trainer(attempt, loaded, trainer, parts, len(lessons), "learning from right texts (SFT)")
