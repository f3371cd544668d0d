"""Group relative policy optimisation (Shao et al. 2024, DeepSeekMath, eq. 3). Method `grpo`.

An action's advantage is relative to the G actions of its group, all of the same prompt:

    A_g = (r_g − mean(r)) / (std(r) + 10⁻⁴)
    loss = − mean min(ρ_g A_g, clip(ρ_g, 1 − ε, 1 + ε) A_g) + β KL(π ‖ π_start),      ρ_g = π(a_g | x) / π_old(a_g | x)

The deviation is the sample's, with divisor G − 1, as in TRL; the population's, with divisor G, would make every
advantage √(G / (G − 1)) times larger. The divergence is exact, over all options, where the paper samples it.

Labelled rows: for each prompt G actions are drawn from π and rewarded, with one update a batch, so that ρ = 1 and the
update is on-policy. Logged rows: the stored decisions of one prompt are a group, and their rewards count as they were
stored. π_old is the logged propensity, or the starting policy where an outside policy did not tell it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.methods.offline import Decisions
from training.engine.methods.online import Actor, Visits, clipped_surrogate
from training.engine.models.actions import ActionScorer, Scores
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.rows.types import as_decision, groups_of_prompts
from training.engine.scoring.rows import divergence
from training.engine.spec.methods import RowKind
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.fit import Metrics, Updates, fit


def group_advantages(rewards: Tensor) -> Tensor:
    """(B, G) rewards → advantages within each row; 0 where all rewards of the group agree."""
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place, on stored or on fresh decisions as its rows are logged or labelled."""
    learn = learn_from_log if attempt.spec.train_rows is RowKind.LOGGED else act_and_learn
    return learn(attempt, loaded, data)


def learn_from_log(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """A replayed row is one more decision of its prompt's group."""
    settings = attempt.spec.online
    groups = groups_of_prompts([*data.logged, *map(as_decision, data.replay)])
    decisions = Decisions(attempt, loaded, [row for group in groups for row in group])
    if (alone := len(data.logged) + len(data.replay) - len(decisions.rows)) > 0:
        attempt.events.warn(f"{alone} decisions teach nothing: no other decision of the same prompt has another reward")
    rewards = [torch.tensor([[row.reward or 0.0 for row in group]]) for group in groups]
    advantage = torch.cat([group_advantages(group)[0] for group in rewards]).to(attempt.device)
    start = decisions.score()
    told = torch.tensor([row.propensity or 0.0 for row in decisions.rows], device=attempt.device)
    old = torch.where(told > 0, told.log(), start.gather(1, decisions.actions[:, None])[:, 0])

    def loss_of(batch: list[int], scores: Scores) -> Metrics:
        taken = scores.log_p.gather(1, decisions.actions[batch, None])[:, 0]
        kl = divergence(scores.log_p, start[batch]).mean()
        loss = clipped_surrogate(taken, old[batch], advantage[batch], settings.clip) + settings.kl_of_log * kl
        return {"loss": loss, "kl": kl}

    return decisions.learn(loss_of, "learning from groups of decisions (GRPO)")


def act_and_learn(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """On the prompts of labelled rows, without dropout: what acts is what is trained."""
    spec, settings, rows = attempt.spec, attempt.spec.online, data.labelled
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
    actor = Actor(attempt, loaded.model, scorer, rows)
    visits = Visits(attempt, actor)
    precision = attempt.precision_of(loaded.model)
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, settings.steps, precision)
    accumulation = Accumulation(attempt, updates)
    actor.follow(updates)

    def take_step(step: int) -> Metrics:
        batch = visits.at(step)
        chance = torch.rand(len(batch), settings.group, device=attempt.device)
        success = torch.zeros(len(batch), device=attempt.device)

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            rows, share = [batch[place] for place in part], len(part) / len(batch)
            log_p = actor.score(rows).log_p
            success[part[0] : part[-1] + 1] = actor.success(rows, log_p)
            trajectories = actor.draw(rows, log_p, chance[part[0] : part[-1] + 1])
            actor.refuse_foreign(trajectories)
            advantage = group_advantages(trajectories.rewards)
            taken = log_p.gather(1, trajectories.actions)
            kl = visits.start.kl(rows, log_p)
            surrogate = clipped_surrogate(taken, trajectories.log_p, advantage, settings.clip)
            loss = share * (surrogate + settings.kl_of_fresh * kl)
            text = actor.text_share(rows, trajectories.actions[:, 0].tolist(), part, len(batch))
            return loss + spec.weight_of_text * text, {
                "loss": loss.detach(),
                "reward": share * trajectories.rewards.mean(),
                "kl": share * kl.detach(),
                "text_loss": text.detach(),
            }

        metrics = actor.learn(accumulation, len(batch), share_of)
        return {**metrics, **visits.note(batch, attempt.processes.add(success))}

    metrics = fit(attempt, updates, settings.steps, take_step, "learning from fresh decisions (GRPO)", visits.kept)
    return Outcome(settings.steps, len(rows), metrics)
