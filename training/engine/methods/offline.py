"""Learning from decisions as they were logged, batch by batch: what the methods on logged rows share.

The counterpart of training.engine.methods.online, where the weights in training act afresh. A method says what a batch
costs; here rows are read and scored, and the steps are taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import Batches, drop_tokens
from training.engine.models.actions import ActionScorer, Scores, draw_options
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.rows.types import Labelled, Logged, as_decision, prompts_of
from training.engine.scoring.rows import divergence, score_rows
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import text_share
from training.engine.updates.fit import Metrics, Updates, fit

LossOf = Callable[[list[int], Scores], Metrics]
"""(numbers of rows, their scores under the weights in training) → 0-d tensors to report, means over these rows; "loss"
is what is to become smaller. The rows are an update's, or as many of them as are calculated at once."""


class Decisions:
    """n logged decisions, then the labelled rows to replay: decisions for the right answer, taken for certain.

    `actions` (n,) places of the actions among each row's options, on the device; `heads` of `PromptEncoder`.
    """

    def __init__(
        self, attempt: Attempt, loaded: Loaded, logged: Sequence[Logged], replay: Sequence[Labelled] = ()
    ) -> None:
        self.attempt = attempt
        self.model: nn.Module = loaded.model
        self.rows = [*logged, *map(as_decision, replay)]
        self.logged = len(logged)
        self.scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
        asked = prompts_of(self.rows)
        self.prompts, self.heads = self.scorer.encode(asked), self.scorer.prompts.heads(asked)
        self.options = [row.options for row in self.rows]
        self.actions = torch.tensor([row.options.index(row.action) for row in self.rows], device=attempt.device)

    @property
    def offered(self) -> Tensor:
        """(n, K) on the CPU: whether the row has an option at this place."""
        counts = torch.tensor([len(options) for options in self.options])
        return torch.arange(int(counts.max())) < counts[:, None]

    def score(self, places: Sequence[int] | None = None) -> Tensor:
        """(n, K) log-probabilities under the weights as they are: the starting policy's, before `learn`. Of the rows at
        `places` alone, if they are given."""
        places = range(len(self.rows)) if places is None else places
        prompts, options = [self.prompts[place] for place in places], [self.options[place] for place in places]
        return score_rows(self.attempt, self.model, self.scorer, prompts, options)

    def learn(
        self,
        loss_of: LossOf,
        message: str,
        *,
        head: Mapping[str, nn.Parameter] | None = None,
        kept: Mapping[str, Tensor] | None = None,
    ) -> Outcome:
        """Passes over all rows, and trains the model in place, with the parameters of a method's own `head`.

        Options that the weights in training draw keep free generation valid (training.engine.updates.answers). `kept`
        as of `fit`.
        """
        spec = self.attempt.spec
        batches = Batches([len(ids) for ids in self.prompts], spec.optimiser.rows_an_update, spec.seed)
        total = batches.per_epoch * spec.optimiser.epochs
        precision = self.attempt.precision_of(self.model)
        updates = Updates({**trainable_parameters(self.model), **(head or {})}, spec.optimiser, total, precision)
        accumulation = Accumulation(self.attempt, updates)
        begins, end = self.heads, self.scorer.prompts.tail

        def take_step(step: int) -> Metrics:
            batch = batches.at(step)
            rng = random.Random(f"{spec.seed}/drop/{step}")  # noqa: S311 - augmentation, not a secret
            chance = torch.rand(len(batch), 1, device=self.attempt.device)
            ids = [drop_tokens(self.prompts[i], begins[i], end, spec.optimiser.token_dropout, rng) for i in batch]

            def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
                rows, some = [batch[place] for place in part], [ids[place] for place in part]
                options = [self.options[i] for i in rows]
                with self.attempt.autocast(self.model):  # once: what it converts of the weights serves both
                    scores = self.scorer.score(self.model, some, options)
                    drawn = draw_options(scores.log_p.detach(), chance[part[0] : part[-1] + 1])[:, 0].tolist()
                    text = text_share(self.model, self.scorer, some, options, drawn, part, len(batch))
                share = len(rows) / len(batch)
                metrics = {name: share * value for name, value in loss_of(rows, scores).items()}
                told = {name: value.detach() for name, value in metrics.items()} | {"text_loss": text.detach()}
                return metrics["loss"] + spec.weight_of_text * text, told

            return accumulation.update(len(batch), share_of)

        self.model.train()
        metrics = fit(self.attempt, updates, total, take_step, message, kept)
        self.model.eval()
        return Outcome(total, len(self.rows), metrics)

    def imitate(self, weights: Tensor, message: str, *, kl: float = 0.0) -> Outcome:
        """Learns from − 1/n Σ_i w_i log π(a_i | x_i) / mean(w) + κ KL(π ‖ π_start), κ = `kl`. `weights` (n,), 0 or
        more, on the device."""
        weights, start = weights / weights.mean(), self.score() if kl else None

        def loss_of(batch: list[int], scores: Scores) -> Metrics:
            taken = scores.log_p.gather(1, self.actions[batch, None])[:, 0]
            loss = -(weights[batch] * taken).mean()
            if start is None:
                return {"loss": loss}
            distance = divergence(scores.log_p, start[batch]).mean()
            return {"loss": loss + kl * distance, "kl": distance}

        return self.learn(loss_of, message)
