"""Proximal policy optimisation (Schulman et al. 2017). Method `ppo`.

    loss = − mean min(ρ A, clip(ρ, 1 − ε, 1 + ε) A) + β KL(π ‖ π_start) + ½ (V(x) − return)²
    ρ = π(a | x) / π_old(a | x)

A comes from generalised advantage estimation (Schulman et al. 2016) and is normalised over the batch. The value
head reads the last prompt token's state without sending gradients into it, and the divergence is exact.

Labelled rows, one step: draw one action for each prompt of a batch, reward it, estimate advantages, then make
`inner_epochs` passes over the batch in minibatches. Logged rows: the stored decisions are the batches, π_old is the
logged propensity, and A = r − V(x), as each decision is an episode of one step. The clip keeps π near the policy that
acted, so one log teaches less than fresh decisions do.

Logged rows of which one or more have no propensity: no ratio can be formed, so π acts afresh on the logged prompts, as
on those of labelled rows, and a reward model of the same log pays, cross-fitted so that a prompt's fresh decisions are
paid by a model that has not seen the prompt's own (training.engine.methods.cross_fitted). The run says so, and how good
that model is; where it is not shown to be better than a constant, the run is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.methods.cross_fitted import find_payments
from training.engine.methods.offline import Decisions
from training.engine.methods.online import Actor, Visits, clipped_surrogate
from training.engine.models.actions import ActionScorer, Scores
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.scoring.rows import divergence
from training.engine.spec.methods import RowKind
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.fit import Metrics, Updates, fit


def generalised_advantages(
    rewards: Tensor, values: Tensor, ends: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """GAE over steps in time order: `rewards`, `values`, `ends` (T,) → (advantages, returns), each (T,).

    δ_t = r_t + γ V_{t+1} − V_t and A_t = δ_t + γ λ A_{t+1}; both sums break where `ends` says an episode ends.
    """
    advantages = torch.zeros_like(rewards)
    following = values.new_zeros(())
    for t in reversed(range(len(rewards))):
        goes_on = 0.0 if ends[t] or t == len(rewards) - 1 else 1.0
        next_value = values[t + 1] if goes_on else values.new_zeros(())
        following = rewards[t] + gamma * next_value - values[t] + gamma * gae_lambda * goes_on * following
        advantages[t] = following
    return advantages, advantages + values


def normalise(advantages: Tensor) -> Tensor:
    """(B,) with mean 0 and deviation 1; a single one stays as it is."""
    if len(advantages) == 1:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-6)


class ValueHead(nn.Module):
    """V(x) from the last prompt token's state; starts at 0 everywhere."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, H) → (B,)"""
        value: Tensor = self.linear(nn.functional.layer_norm(hidden, hidden.shape[-1:]))[:, 0]
        return value

    def named(self) -> dict[str, nn.Parameter]:
        """Its parameters, under names that no model's have."""
        return {f"value.{name}": parameter for name, parameter in self.named_parameters()}


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place, on stored decisions where each has its propensity, and else on fresh ones. The value
    head is thrown away afterwards."""
    if attempt.spec.train_rows is not RowKind.LOGGED:
        return act_on_labelled(attempt, loaded, data)
    known = all(row.propensity is not None for row in data.logged if row.reward is not None)
    return (learn_from_log if known else act_on_logged)(attempt, loaded, data)


def learn_from_log(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """On logged rows with a reward, and on replayed rows as decisions that were certain and right."""
    settings = attempt.spec.online
    decisions = Decisions(attempt, loaded, [row for row in data.logged if row.reward is not None], data.replay)
    start = decisions.score()
    rewards = torch.tensor([row.reward or 0.0 for row in decisions.rows], device=attempt.device)
    old = torch.tensor([row.propensity or 1.0 for row in decisions.rows], device=attempt.device).log()
    value = ValueHead(loaded.model.config.hidden_size).to(attempt.device)

    def loss_of(batch: list[int], scores: Scores) -> Metrics:
        values = value(scores.hidden.detach())
        advantage = normalise(rewards[batch] - values.detach())
        taken = scores.log_p.gather(1, decisions.actions[batch, None])[:, 0]
        surrogate = clipped_surrogate(taken, old[batch], advantage, settings.clip)
        kl = divergence(scores.log_p, start[batch]).mean()
        value_loss = nn.functional.mse_loss(values, rewards[batch])
        return {"loss": surrogate + settings.kl_of_log * kl + 0.5 * value_loss, "kl": kl, "value_loss": value_loss}

    return decisions.learn(loss_of, "learning from logged decisions (PPO)", head=value.named())


def act_on_labelled(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """On the prompts of labelled rows, paid by the spec's reward."""
    scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    return act_and_learn(attempt, loaded, Actor(attempt, loaded.model, scorer, data.labelled))


def act_on_logged(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """On the prompts of logged rows with a reward, and of replayed ones, for the optimiser's epochs, paid by the
    cross-fitted reward model. As many decisions of a prompt as GRPO's groups have: nobody has to judge them, and one
    scoring of the prompt tells the probabilities of all."""
    decisions = Decisions(attempt, loaded, [row for row in data.logged if row.reward is not None], data.replay)
    payments = find_payments(decisions)
    actor = Actor(attempt, loaded.model, decisions.scorer, decisions.rows, payments)
    draws, epochs = attempt.spec.online.group, attempt.spec.optimiser.epochs
    outcome = act_and_learn(attempt, loaded, actor, draws=draws, epochs=epochs, kept=payments.kept)
    return outcome.also(**payments.metrics)


def act_and_learn(
    attempt: Attempt,
    loaded: Loaded,
    actor: Actor,
    *,
    draws: int = 1,
    epochs: int | None = None,
    kept: Mapping[str, Tensor] | None = None,
) -> Outcome:
    """For the spec's steps, or for `epochs` over all prompts, with so many `draws` of each prompt; `kept` as of `fit`.
    There is no dropout: what acts is what is trained."""
    spec, settings = attempt.spec, attempt.spec.online
    visits = Visits(attempt, actor, epochs)
    value = ValueHead(loaded.model.config.hidden_size).to(attempt.device)
    minibatch = min(spec.optimiser.rows_an_update, settings.prompts_per_step)
    passes = settings.inner_epochs * math.ceil(settings.prompts_per_step / minibatch)
    precision = attempt.precision_of(loaded.model)
    updates = Updates(
        trainable_parameters(loaded.model) | value.named(), spec.optimiser, visits.steps * passes, precision
    )
    accumulation = Accumulation(attempt, updates)
    actor.follow(updates)

    def take_step(step: int) -> Metrics:
        batch = visits.at(step)
        with torch.no_grad():
            old = actor.score(batch)
            trajectories = actor.draw(batch, old.log_p, torch.rand(len(batch), draws, device=attempt.device))
            values = value(old.hidden)
        actor.refuse_foreign(trajectories)
        rewards = trajectories.rewards.flatten()
        ends = torch.ones(len(rewards), dtype=torch.bool)  # a decision is an episode of one step
        # Step by step, which is no work for a GPU.
        advantages, returns = generalised_advantages(
            rewards.cpu(), values.repeat_interleave(draws).cpu(), ends, settings.gamma, settings.gae_lambda
        )
        advantages, returns = (
            of_all.view(len(batch), draws).to(attempt.device) for of_all in (normalise(advantages), returns)
        )
        metrics: dict[str, Tensor] = {"reward": rewards.mean()}
        for _ in range(settings.inner_epochs):
            for one in torch.randperm(len(batch)).split(minibatch):  # type: ignore[no-untyped-call]
                places: list[int] = one.tolist()

                def share_of(part: Sequence[int], places: list[int] = places) -> tuple[Tensor, Metrics]:
                    seen = places[part[0] : part[-1] + 1]
                    rows, at = [batch[place] for place in seen], torch.tensor(seen, device=attempt.device)
                    new = actor.score(rows)
                    taken = new.log_p.gather(1, trajectories.actions[at])
                    surrogate = clipped_surrogate(taken, trajectories.log_p[at], advantages[at], settings.clip)
                    kl = visits.start.kl(rows, new.log_p)
                    expected = value(new.hidden.detach())[:, None].expand(-1, draws)
                    value_loss = nn.functional.mse_loss(expected, returns[at])
                    loss = surrogate + settings.kl_of_fresh * kl + 0.5 * value_loss
                    means = {"loss": loss, "kl": kl, "value_loss": value_loss}
                    shares = {name: mean * len(part) / len(places) for name, mean in means.items()}
                    text = actor.text_share(rows, trajectories.actions[at, 0].tolist(), part, len(places))
                    told = {name: share.detach() for name, share in shares.items()}
                    return shares["loss"] + spec.weight_of_text * text, told

                metrics |= actor.learn(accumulation, len(places), share_of)
        noted = visits.note(batch, actor.success(batch, old.log_p)) if visits.follow_success else {}
        return {**metrics, **noted}

    kept = {**visits.kept, **(kept or {})}
    result = fit(attempt, updates, visits.steps, take_step, "learning from fresh decisions (PPO)", kept)
    return Outcome(visits.steps, len(actor.rows), result)
