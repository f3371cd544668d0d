"""Kahneman–Tversky optimisation on right and wrong texts, through TRL's KTOTrainer. Method `kto` of rows of text.

    r = log π(y | x) / π₀(y | x)        z = max(0, mean r over the rows at once with completions of other prompts)
    loss = mean over right texts of 1 − σ(β (r − z))  +  w · mean over wrong ones of 1 − σ(β (z − r))

Ethayarajh et al. 2024, equations 7 and 8; w is `undesirable_weight`. A text is right where what a person said of it,
or else its reward, is at least `right_from`. Of the larger class as many are taken as the smaller one has.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from trl import KTOConfig, KTOTrainer

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.models.loading import Loaded
from training.engine.rows.texts import balance_classes
from training.engine.text.bridge import Conversations, common_arguments, make_dataset, run_trainer, share_of_batch
from training.engine.text.parts import parts_of


class OwnTokens(KTOTrainer):
    """TRL's, on rows that are tokens already: it would render their texts in a way of its own."""

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        return dataset


def rotate(replies: Sequence[list[int]], at_once: int) -> list[list[int]]:
    """For z: beside each row the reply of the one before it among those that are calculated at once."""
    parts = [replies[start : start + at_once] for start in range(0, len(replies), at_once)]
    return [reply for part in parts for reply in (part[-1], *part[:-1])]


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on as many right texts as wrong ones."""
    chats, settings = Conversations(attempt, loaded), attempt.spec.kto
    fitting = {id(lesson.row): lesson for lesson in chats.read_fitting(data.texts)}
    balanced = balance_classes([lesson.row for lesson in fitting.values()], settings.right_from, attempt.spec.seed)
    if not balanced:
        raise ValueError("none of the texts that are short enough is right, or none is wrong")
    lessons = [fitting[id(row)] for row, _ in balanced]
    replies = [lesson.reply_ids for lesson in lessons]
    # Of one text alone there is no z.
    parts = parts_of(attempt, max(2, share_of_batch(attempt, len(lessons))), least=2)
    trainer: Any = OwnTokens(
        model=loaded.model,
        ref_model=None if loaded.adapts else copy.deepcopy(loaded.model),
        args=KTOConfig(
            **common_arguments(attempt, loaded, parts),
            max_length=None,
            beta=settings.beta,
            undesirable_weight=settings.undesirable_weight,
            # z comes from neighbours in the batch, so the order is that of the rows: a random one, each epoch the same.
            train_sampling_strategy="sequential",
        ),
        train_dataset=make_dataset(
            prompt_ids=[lesson.prompt_ids for lesson in lessons],
            completion_ids=replies,
            KL_completion_ids=rotate(replies, parts.at_once),
            label=[right for _, right in balanced],
        ),
        processing_class=loaded.tokenizer,
    )
    return run_trainer(attempt, loaded, trainer, parts, len(lessons), "learning from right and wrong texts (KTO)")
