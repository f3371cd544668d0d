"""Reward-weighted likelihood of texts. Method `reward_weighted` of rows of text.

    loss = − 1/n Σ_i w_i · 1/|y_i| log p(y_i | x_i),      w_i = r_i / mean(r)

p is the plain language model, and the tokens of the completion y_i alone are learnt, its end included; so a long text
counts no more than a short one. Reward-weighted regression (Peters and Schaal 2007) without importance weights: what
the policy that wrote the texts seldom wrote stays seldom. Rows with reward 0 or without one teach nothing and are left
out. As `sft` imitates right texts, this imitates all of them, each as far as it was worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import Batches, RunData
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import answer_log_p
from training.engine.updates.fit import Metrics, Updates, fit


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on the rewarded texts."""
    spec, device = attempt.spec, attempt.device
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, device)
    rewarded = [row for row in data.texts if row.reward]
    prompts, texts = scorer.prompts.encode_rows(rewarded)
    fitting = [place for place, text in enumerate(texts) if len(text) <= spec.max_completion_tokens]
    too_long = f"{len(rewarded) - len(fitting)} of {len(rewarded)} rewarded rows hold texts of over "
    too_long += f"{spec.max_completion_tokens} tokens"
    if not fitting:
        raise ValueError(f"{too_long}: raise max_completion_tokens")
    if len(fitting) < len(rewarded):
        attempt.events.warn(f"{too_long} (max_completion_tokens) and were left out")
    prompts, texts = [prompts[place] for place in fitting], [texts[place] for place in fitting]
    weights = torch.tensor([rewarded[place].reward for place in fitting], device=device)
    weights = weights / weights.mean()
    lengths = torch.tensor([len(text) for text in texts], device=device)
    batches = Batches(
        [len(prompt) + len(text) for prompt, text in zip(prompts, texts, strict=True)],
        spec.optimiser.rows_an_update,
        spec.seed,
    )
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total, attempt.precision_of(loaded.model))
    accumulation = Accumulation(attempt, updates)

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            rows = [batch[place] for place in part]
            with attempt.autocast(loaded.model):
                log_p = answer_log_p(loaded.model, scorer, [prompts[i] for i in rows], [texts[i] for i in rows])
            mean_log_p = log_p / lengths[rows]
            loss = -(weights[rows] * mean_log_p).sum() / len(batch)
            return loss, {"loss": loss.detach(), "text_loss": -mean_log_p.detach().sum() / len(batch)}

        return accumulation.update(len(batch), share_of)

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from rewarded texts")
    loaded.model.eval()
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return Outcome(total, len(fitting), metrics).also(effective_sample_size=effective)
