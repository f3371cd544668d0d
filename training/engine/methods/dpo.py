"""Direct preference optimisation (Rafailov et al. 2023). Method `dpo`.

For a prompt x with a better text w and a worse one l:

    h = [log p(w | x) − log p_start(w | x)] − [log p(l | x) − log p_start(l | x)]
    loss = − log σ(β h)  +  v · − 1/n Σ_t log p(w_t | x, w_<t)

p is the plain language model: log p(y | x) is the sum over the n tokens of y, the last one the end of its turn, so the
texts may be anything, options or not. The constrained policy moves with it, as it reads the same logits at every
branching (training.engine.models.actions). The second term, with v the spec's text_weight, keeps the better text
likely, where the first alone may lower both (Pang et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.attempt.memory import score_in_batches
from training.engine.data.reading import Batches, RunData
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.rows.types import prompts_of, replies_of
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import answer_log_p
from training.engine.updates.fit import Metrics, Updates, fit


def dpo_loss(log_p: Tensor, start: Tensor, beta: float) -> Tensor:
    """(B, 2) log-probabilities of the better and the worse text, now and at the start → 0-d."""
    better, worse = (log_p - start).unbind(1)
    return -nn.functional.logsigmoid(beta * (better - worse)).mean()


class Pairs:
    """n prompts, each with a better and a worse text, as tokens."""

    def __init__(self, attempt: Attempt, loaded: Loaded, data: RunData) -> None:
        self.attempt, self.model = attempt, loaded.model
        self.scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
        asked = prompts_of(data.preferences)
        better, worse = zip(*map(replies_of, data.preferences), strict=True)
        self.prompts = self.scorer.encode(asked)
        self.better = self.scorer.encode_replies(asked, better)
        self.worse = self.scorer.encode_replies(asked, worse)
        lengths = zip(self.prompts, self.better, self.worse, strict=True)
        self.lengths = [len(prompt) + max(len(better), len(worse)) for prompt, better, worse in lengths]

    def log_p(self, batch: list[int]) -> tuple[Tensor, Tensor]:
        """(B, 2) log p of the better and the worse text; the better one's cross-entropy, mean over tokens."""
        texts = [*(self.better[i] for i in batch), *(self.worse[i] for i in batch)]
        with self.attempt.autocast(self.model):
            log_p = answer_log_p(self.model, self.scorer, [self.prompts[i] for i in batch * 2], texts).view(2, -1)
        return log_p.T, -log_p[0].sum() / sum(map(len, texts[: len(batch)]))

    @torch.no_grad()
    def score(self) -> Tensor:
        """(n, 2) log p under the weights as they are."""
        self.model.eval()
        found = torch.zeros(len(self.prompts), 2, device=self.attempt.device)

        def score(batch: list[int]) -> None:
            found[batch] = self.log_p(batch)[0]

        score_in_batches(self.attempt, self.lengths, self.attempt.spec.optimiser.batch_size, score)
        return found


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on preference rows."""
    spec, pairs = attempt.spec, Pairs(attempt, loaded, data)
    start = pairs.score()
    batches = Batches(pairs.lengths, spec.optimiser.rows_an_update, spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total, attempt.precision_of(loaded.model))
    accumulation = Accumulation(attempt, updates)

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            rows = [batch[place] for place in part]
            log_p, text = pairs.log_p(rows)
            gain = (log_p - start[rows]).detach()
            means = {
                "loss": dpo_loss(log_p, start[rows], spec.dpo.beta),
                "text_loss": text,
                "preferred_share": (gain[:, 0] > gain[:, 1]).float().mean(),
            }
            shares = {name: value * len(rows) / len(batch) for name, value in means.items()}
            loss = shares["loss"] + spec.weight_of_text * shares["text_loss"]
            return loss, {name: value.detach() for name, value in shares.items()}

        return accumulation.update(len(batch), share_of)

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from preferences")
    loaded.model.eval()
    return Outcome(total, len(pairs.prompts), metrics)
