"""Reward-weighted likelihood of rankings. Method `reward_weighted` of rows that are items of rankings.

The reward of a ranking is that of the item a put first among the items S that were shown. With s(b) the log-odds of
yes, the model puts a first with the probability of Plackett and Luce (training.engine.rows.slates), so

    loss = − 1/n Σ_i w_i log (exp s(a_i) / Σ_{b in S_i} exp s(b)) / mean(w),      w_i = min(r_i / μ_i(a_i first), cap)

All items of a ranking are scored in one update: what was put first and rewarded rises over the others that were shown.
Later places earn nothing and teach nothing. μ(a first) is logged, or comes from that of the whole ranking
(`first_propensity`). Rows that are of no ranking, and labelled rows of `data.replay` with r = μ = 1, count as in
training.engine.methods.reward_weighted: − w log π(action | x).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import Batches, RunData, drop_tokens
from training.engine.models.actions import ActionScorer, draw_options
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.rows.slates import find_slates, first_propensity
from training.engine.rows.types import YES, Labelled, Logged, as_decision, prompts_of
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import text_share
from training.engine.updates.fit import Metrics, Updates, fit


@dataclass(frozen=True, slots=True)
class Lesson:
    """A ranking whose first item earned `weight` before the cap, or one row of no ranking."""

    rows: Sequence[Logged]
    weight: float


def find_lessons(logged: Sequence[Logged], replay: Sequence[Labelled]) -> list[Lesson]:
    """Of rankings and rows with a reward above 0, then of the rows to replay. One item alone is no ranking."""
    found = []
    for items in find_slates(logged).values():
        propensity = first_propensity(items)
        if len(items) > 1 and items[0].reward and propensity is not None:
            found.append(Lesson(items, items[0].reward / propensity))
    alone = [row for row in logged if row.slate is None and row.reward]
    found += [Lesson([row], (row.reward or 0.0) / (row.propensity or 1.0)) for row in alone]
    return found + [Lesson([as_decision(row)], 1.0) for row in replay]


def first_log_p(log_p: Tensor, yes: Sequence[int], actions: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """(N, K) log-probabilities of the rows of B lessons, with each row's places of yes and of its action, and the
    lessons' numbers of rows, adding up to N → (B,): log P(first item first) of rankings, log π(action) of single
    rows."""
    rows, places = torch.arange(len(log_p), device=log_p.device), torch.tensor(yes, device=log_p.device)
    # The rows of rankings have two options; what the others get here is not read.
    odds = log_p[rows, places] - log_p[rows, (1 - places).clamp(max=log_p.shape[1] - 1)]
    taken = log_p[rows, torch.tensor(actions, device=log_p.device)]
    starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    return torch.stack(
        [
            odds[at : at + size].log_softmax(0)[0] if size > 1 else taken[at]
            for at, size in zip(starts, sizes, strict=True)
        ]
    )


class Lessons:
    """n lessons, their prompts as tokens, and their weights."""

    def __init__(self, attempt: Attempt, loaded: Loaded, data: RunData) -> None:
        self.lessons = find_lessons(data.logged, data.replay)
        if not self.lessons:
            raise ValueError("no ranking has a reward above 0 to imitate")
        self.scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
        asked = [prompts_of(one.rows) for one in self.lessons]
        self.prompts = [self.scorer.encode(prompts) for prompts in asked]
        self.heads = [self.scorer.prompts.heads(prompts) for prompts in asked]
        cap = attempt.spec.reward_weighted.weight_cap
        weights = torch.tensor([one.weight for one in self.lessons], device=attempt.device).clamp(max=cap)
        self.weights = weights / weights.mean()
        self.mean_rows = sum(len(one.rows) for one in self.lessons) / len(self.lessons)

    def at_once(self, rows: int) -> int:
        """How many lessons have about so many rows, at least one."""
        return max(1, round(rows / self.mean_rows))


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place."""
    spec, taught = attempt.spec, Lessons(attempt, loaded, data)
    scorer, end = taught.scorer, taught.scorer.prompts.tail
    lengths = [sum(map(len, prompts)) for prompts in taught.prompts]
    batches = Batches(lengths, taught.at_once(spec.optimiser.rows_an_update), spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, total, attempt.precision_of(loaded.model))
    accumulation = Accumulation(attempt, updates)
    accumulation.part = taught.at_once(spec.optimiser.batch_size)

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)
        starts = [0, *accumulate(len(taught.lessons[i].rows) for i in batch)]
        rng = random.Random(f"{spec.seed}/drop/{step}")  # noqa: S311 - augmentation, not a secret
        chance = torch.rand(starts[-1], 1, device=attempt.device)
        share = spec.optimiser.token_dropout
        ids = [
            drop_tokens(prompt, begin, end, share, rng)
            for i in batch
            for prompt, begin in zip(taught.prompts[i], taught.heads[i], strict=True)
        ]
        rows = [row for i in batch for row in taught.lessons[i].rows]

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            places = range(starts[part[0]], starts[part[-1] + 1])
            some, prompts = [rows[place] for place in places], [ids[place] for place in places]
            options = [row.options for row in some]
            with attempt.autocast(loaded.model):
                scores = scorer.score(loaded.model, prompts, options)
                drawn = draw_options(scores.log_p.detach(), chance[places.start : places.stop])[:, 0].tolist()
                text = text_share(loaded.model, scorer, prompts, options, drawn, places, len(rows))
            sizes = [len(taught.lessons[batch[place]].rows) for place in part]
            yes = [row.options.index(YES) if YES in row.options else 0 for row in some]
            taken = first_log_p(scores.log_p, yes, [row.options.index(row.action) for row in some], sizes)
            loss = -(taught.weights[[batch[place] for place in part]] * taken).sum() / len(batch)
            told = {"loss": loss.detach(), "text_loss": text.detach()}
            return loss + spec.weight_of_text * text, told

        return accumulation.update(len(batch), share_of)

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning from rewarded rankings")
    loaded.model.eval()
    effective = float(taught.weights.sum() ** 2 / (taught.weights**2).sum())
    return Outcome(total, sum(len(one.rows) for one in taught.lessons), metrics).also(effective_sample_size=effective)
