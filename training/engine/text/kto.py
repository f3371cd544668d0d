"""Kahneman–Tversky optimisation on right and wrong texts, through TRL's KTOTrainer. Method `kto` of rows of text.

    r = log π(y | x) / π₀(y | x)        z = max(0, mean r over the rows at once with completions of other prompts)
    loss = mean over right texts of 1 − σ(β (r − z))  +  w · mean over wrong ones of 1 − σ(β (z − r))

Ethayarajh et al. 2024, equations 7 and 8; w is `undesirable_weight`. A text is right where what a person said of it,
or else its reward, is at least `right_from`. Of the larger class as many are taken as the smaller one has.
"""

from __future__ import annotations

import copy

from trl import KTOConfig, KTOTrainer

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.models.loading import Loaded
from training.engine.rows.texts import balance_classes
from training.engine.text.bridge import Conversations, common_arguments, make_dataset, run_trainer, share_of_batch
from training.engine.text.parts import parts_of


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on as many right texts as wrong ones."""
    chats, settings = Conversations(attempt, loaded), attempt.spec.kto
    fitting = chats.keep_fitting(data.texts, [(row.completion,) for row in data.texts])
    rows = balance_classes(fitting, settings.right_from, attempt.spec.seed)
    if not rows:
        raise ValueError("none of the texts that are short enough is right, or none is wrong")
    prompts = chats.prompts(row for row, _ in rows)
    # Of one text alone there is no z.
    parts = parts_of(attempt, max(2, share_of_batch(attempt, len(rows))), least=2)
    trainer = KTOTrainer(
        model=loaded.model,
        ref_model=None if loaded.adapts else copy.deepcopy(loaded.model),
        args=KTOConfig(
            **common_arguments(attempt, loaded, parts),
            max_length=chats.longest_chat,
            beta=settings.beta,
            undesirable_weight=settings.undesirable_weight,
            # z comes from neighbours in the batch, so the order is that of the rows: a random one, each epoch the same.
            train_sampling_strategy="sequential",
        ),
        train_dataset=make_dataset(
            prompt=prompts,
            completion=[chats.completion(row.completion) for row, _ in rows],
            label=[right for _, right in rows],
        ),
        processing_class=loaded.tokenizer,
    )
    return run_trainer(attempt, loaded, trainer, parts, len(rows), "learning from right and wrong texts (KTO)")
