"""Supervised fine-tuning: a model learns the task from labelled rows. Methods `sft` and `pretrain`.

Loss for a row with prompt x and right option y (tokens y_1 … y_n, the last one end of sequence):

    − log π(y | x)  −  w · 1/n Σ_t log p(y_t | x, y_<t),      w: the spec's text_weight

π is constrained to the options (training.engine.models.actions) and is what decides; p is the plain language model,
so that free generation gives an option as well. Both come from one teacher-forced forward: π branches
only where y itself passes.

`sft` does this, with an adapter (Ouyang et al. 2022 begin with it) or all weights. `pretrain` makes a model or trains
one whole, and then calibrates it (training.engine.scoring.calibration): a share of the rows, a fifth by default, is
never trained on; the temperature that minimises their − log π goes into the weights. The model is then calibrated by
its weights alone, which an adapter could not be.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import Batches, RunData, drop_tokens
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.rows.types import Labelled, prompts_of
from training.engine.scoring.calibration import calibrate
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import answer_logits, branchings
from training.engine.updates.fit import Metrics, Updates, fit


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains the adapter, or every weight, of `loaded` in place on all rows."""
    return learn_answers(attempt, loaded, data.labelled)


def pretrain(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains every weight of `loaded` in place on most of the rows and calibrates on those it kept back."""
    spec, rows = attempt.spec, data.labelled
    shuffled = random.Random(f"{spec.seed}/held").sample(rows, len(rows))  # noqa: S311 - a split, not a secret
    kept_back = int(len(rows) * spec.pretrain.calibration_share)
    outcome = learn_answers(attempt, loaded, shuffled[kept_back:])
    if spec.pretrain.calibration_share > 0:
        scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
        outcome = outcome.also(temperature=calibrate(attempt, loaded.model, scorer, shuffled[:kept_back]))
    return replace(outcome, rows=len(rows))


def learn_answers(attempt: Attempt, loaded: Loaded, rows: Sequence[Labelled]) -> Outcome:
    spec = attempt.spec
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
    asked = prompts_of(rows)
    prompts, heads = scorer.encode(asked), scorer.prompts.heads(asked)
    batches = Batches([len(ids) for ids in prompts], spec.optimiser.rows_an_update, spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total, attempt.precision_of(loaded.model))
    accumulation = Accumulation(attempt, updates)
    tail = scorer.prompts.tail

    def take_step(step: int) -> Metrics:
        chosen = batches.at(step)
        rng = random.Random(f"{spec.seed}/drop/{step}")  # noqa: S311 - augmentation, not a secret
        ids = [drop_tokens(prompts[i], heads[i], tail, spec.optimiser.token_dropout, rng) for i in chosen]
        learned = [rows[i] for i in chosen]
        answers = scorer.answer_ids([row.answer for row in learned])
        tokens = sum(map(len, answers))

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            some = slice(part[0], part[-1] + 1)
            with attempt.autocast(loaded.model):
                choice, text = answer_losses(loaded.model, scorer, ids[some], learned[some], answers[some])
            choice, text = choice / len(learned), text / tokens
            loss = choice + spec.weight_of_text * text
            return loss, {"loss": loss.detach(), "choice_loss": choice.detach(), "text_loss": text.detach()}

        return accumulation.update(len(learned), share_of)

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from labelled rows")
    loaded.model.eval()
    return Outcome(total, len(rows), metrics)


def answer_losses(
    model: nn.Module,
    scorer: ActionScorer,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Labelled],
    answers: Sequence[Sequence[int]],
) -> tuple[Tensor, Tensor]:
    """(− log π of the answers, sum over rows; cross-entropy of their tokens, sum over tokens).

    `answers` are the rows' own, as `ActionScorer.answer_ids` tokenises them.
    """
    logits, targets = answer_logits(model, scorer, prompts, answers)
    text = nn.functional.cross_entropy(logits, targets, reduction="sum")
    options, texts = [row.options for row in rows], [row.answer for row in rows]
    at, allowed = branchings(scorer, options, texts, answers, logits.shape[1])
    if len(at) == 0:  # every row offered a single option
        return 0.0 * text, text
    constrained = logits[at].masked_fill(~allowed, float("-inf"))
    choice = nn.functional.cross_entropy(constrained, targets[at], reduction="sum")
    return choice, text
