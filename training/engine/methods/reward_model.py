"""A model of what people prefer (Bradley and Terry 1952; Christiano et al. 2017; Ouyang et al. 2022, eq. 1). Method
`reward_model`.

A linear head v on the last hidden state h of prompt x and completion y, the end of its turn included, gives a scalar

    r(x, y) = v · h(x, y),        P(w is better than l | x) = σ(r(x, w) − r(x, l))
    loss = − mean log σ(r(x, w) − r(x, l))        over pairs of a better text w and a worse one l

Rows with the right option make pairs of it and some of the others (training.engine.data.reading). v begins at 0, so the
loss begins at log 2. Head and base are trained together, all of the base's weights or an adapter. Only differences
count in the loss, so r has no zero and no scale. Whoever reads it gets

    reward = σ((r − m) / s)  in (0, 1),        m and s: mean and deviation of r over the texts that it learnt from

Beside the weights stand `reward_head.safetensors` and `reward_model.json`, {reward_model: true, max_prompt_tokens,
mean, deviation}. The weights are no policy any more: a run whose base is a folder with that file is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.attempt.memory import score_in_batches
from training.engine.data.reading import Batches, RunData
from training.engine.methods.dpo import Pairs
from training.engine.models.actions import ActionScorer, causal_of, hidden_size, pad_right
from training.engine.models.chats import Message
from training.engine.models.loading import (
    ADAPTER,
    Loaded,
    attach_adapter,
    load_model,
    load_tokenizer,
    trainable_parameters,
)
from training.engine.rows.types import Preference, Prompt, prompts_of, replies_of
from training.engine.spec.result import ModelScore
from training.engine.spec.run_spec import REWARD_MODEL, ModelSource
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.fit import Metrics, Updates, fit

HEAD = "reward_head.safetensors"
BATCH = 64
BINS = 10
"""Of equal width in confidence, for the calibration error."""


def pair_loss(rewards: Tensor) -> Tensor:
    """(B, 2) r of the better and the worse text → 0-d."""
    better, worse = rewards.unbind(1)
    return -nn.functional.logsigmoid(better - worse).mean()


def last_states(
    model: nn.Module, scorer: ActionScorer, prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]
) -> Tensor:
    """(B, H) hidden states of the last token of each text behind its prompt, in float32."""
    causal = causal_of(model)
    rows = [[*prompt, *text] for prompt, text in zip(prompts, texts, strict=True)]
    ids, _ = pad_right(rows, scorer.tokenizer.pad_token_id, scorer.device)
    hidden: Tensor = getattr(causal, causal.base_model_prefix)(input_ids=ids, use_cache=False).last_hidden_state
    return hidden[torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])].float()


@dataclass(slots=True)
class RewardModel:
    """A base with a head (1, H) over it. `mean` and `deviation` put r on the scale of (0, 1)."""

    attempt: Attempt
    loaded: Loaded
    head: nn.Parameter
    max_prompt_tokens: int
    mean: float = 0.0
    deviation: float = 1.0

    def tokens(
        self, prompts: Sequence[str | Prompt], replies: Sequence[str | Message]
    ) -> tuple[list[list[int]], list[list[int]]]:
        scorer = self._scorer
        return scorer.encode(prompts), scorer.encode_replies(prompts, replies)

    def score(self, prompts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]) -> Tensor:
        """(B,) r of each text, in one forward, with gradients."""
        with self.attempt.autocast(self.loaded.model):
            states = last_states(self.loaded.model, self._scorer, prompts, texts)
        return nn.functional.linear(states, self.head)[:, 0]

    @torch.no_grad()
    def score_all(self, prompts: Sequence[str | Prompt], replies: Sequence[str | Message]) -> Tensor:
        """(n,) r of each reply, float32 on the CPU; leaves the model in eval mode. Raises Stopped between batches."""
        self.loaded.model.eval()
        asked, said = self.tokens(prompts, replies)
        found = torch.zeros(len(said))

        def score(batch: list[int]) -> None:
            found[batch] = self.score([asked[i] for i in batch], [said[i] for i in batch]).cpu()

        score_in_batches(self.attempt, [len(x) + len(y) for x, y in zip(asked, said, strict=True)], BATCH, score)
        return found

    def reward(self, prompts: Sequence[str | Prompt], replies: Sequence[str | Message]) -> list[float]:
        """In (0, 1): a half is what the mean of the texts earned that it learnt from."""
        rewards: list[float] = ((self.score_all(prompts, replies) - self.mean) / self.deviation).sigmoid().tolist()
        return rewards

    def save_head(self, folder: Path) -> None:
        """Writes what stands beside the weights."""
        save_file({"weight": self.head.detach().cpu().contiguous()}, folder / HEAD)
        told = {
            "reward_model": True,
            "max_prompt_tokens": self.max_prompt_tokens,
            "mean": self.mean,
            "deviation": self.deviation,
        }
        (folder / REWARD_MODEL).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")

    @property
    def _scorer(self) -> ActionScorer:
        return ActionScorer(self.loaded.tokenizer, self.max_prompt_tokens, self.attempt.device)


def load_reward_model(attempt: Attempt, source: ModelSource) -> RewardModel:
    """Frozen. `source`: the folder that a run of `reward_model` wrote, as `path`, or as `adapter` over its base's.

    The engine has looked before that it is one.
    """
    folder = Path(str(source.adapter or source.path))
    told = json.loads((folder / REWARD_MODEL).read_text(encoding="utf-8"))
    model: Any = load_model(str(source.path), attempt.device)
    if source.adapter is not None:
        model = attach_adapter(model, source.adapter, ADAPTER)
    model.requires_grad_(False)
    head = nn.Parameter(load_file(folder / HEAD)["weight"].to(attempt.device), requires_grad=False)
    return RewardModel(
        attempt, Loaded(model, load_tokenizer(folder)), head, told["max_prompt_tokens"], told["mean"], told["deviation"]
    )


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on preference rows; the outcome writes the head beside its weights."""
    spec, pairs = attempt.spec, Pairs(attempt, loaded, data)
    head = nn.Parameter(torch.zeros(1, hidden_size(loaded.model), device=attempt.device))
    made = RewardModel(attempt, loaded, head, spec.max_prompt_tokens)
    batches = Batches(pairs.lengths, spec.optimiser.rows_an_update, spec.seed)
    total = batches.per_epoch * spec.optimiser.epochs
    precision = attempt.precision_of(loaded.model)
    updates = Updates({**trainable_parameters(loaded.model), "reward_head": head}, spec.optimiser, total, precision)
    accumulation = Accumulation(attempt, updates)

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            rows = [batch[place] for place in part]
            texts = [*(pairs.better[i] for i in rows), *(pairs.worse[i] for i in rows)]
            rewards = made.score([pairs.prompts[i] for i in rows * 2], texts).view(2, -1).T
            margin = (rewards[:, 0] - rewards[:, 1]).detach()
            means = {"margin": margin.mean(), "ordered_rightly": (margin > 0).float().mean()}
            share = len(rows) / len(batch)
            loss = share * pair_loss(rewards)
            return loss, {"loss": loss.detach(), **{name: share * value for name, value in means.items()}}

        return accumulation.update(len(batch), share_of)

    loaded.model.train()
    metrics = fit(attempt, updates, total, take_step, "learning what is preferred")
    prompts = prompts_of(data.preferences)
    better, worse = zip(*map(replies_of, data.preferences), strict=True)
    learnt = made.score_all(prompts * 2, [*better, *worse])
    made.mean, made.deviation = float(learnt.mean()), max(float(learnt.std(correction=0)), 1e-6)
    return Outcome(total, len(pairs.prompts), metrics, save_beside=made.save_head)


def judge_pairs(made: RewardModel, rows: Sequence[Preference]) -> tuple[list[dict[str, Any]], ModelScore]:
    """A line for each held-out pair, and the means: `accuracy` is the share that was ordered rightly,
    `probability_of_right` the mean of σ(margin)."""
    prompts = prompts_of(rows)
    better, worse = zip(*map(replies_of, rows), strict=True)
    margins = made.score_all(prompts, better) - made.score_all(prompts, worse)
    chances = margins.sigmoid().tolist()
    lines = [
        {
            "id": row.id,
            "group": row.group,
            "model": "trained",
            "correct": margin > 0,
            "expected_right": chance,
            "margin": margin,
        }
        for row, margin, chance in zip(rows, margins.tolist(), chances, strict=True)
    ]
    right = sum(line["correct"] for line in lines) / len(lines)
    return lines, ModelScore(rows=len(lines), accuracy=right, probability_of_right=sum(chances) / len(chances))


def calibration_error(margins: Sequence[float]) -> float:
    """Expected calibration error (Naeini et al. 2015) of the confidence σ(|margin|) that a pair is ordered rightly:
    |share that is − mean confidence| over bins of confidence, weighted by their pairs. In [0, 1]."""
    told = torch.tensor(margins, dtype=torch.float64)
    confidence, right = told.abs().sigmoid(), (told > 0).double()
    bins = ((confidence - 0.5) * 2 * BINS).long().clamp(max=BINS - 1)
    gaps = torch.zeros(BINS, dtype=torch.float64).index_add(0, bins, right - confidence)
    return float(gaps.abs().sum() / len(told))
