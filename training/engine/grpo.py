"""Group relative policy optimisation (Shao et al. 2024, DeepSeekMath, eq. 3) on fresh decisions. Method `grpo`.

For each prompt G actions are drawn from π and rewarded. An action's advantage is relative to its group:

    A_g = (r_g − mean(r)) / (std(r) + 10⁻⁴)
    loss = − mean min(ρ_g A_g, clip(ρ_g, 1 − ε, 1 + ε) A_g) + β KL(π ‖ π_start)

with one update a batch, so that ρ = 1 and the update is on-policy. The divergence is exact, over all options,
where the paper samples it.
"""

from __future__ import annotations

from torch import Tensor

from training.engine.actions import ActionScorer
from training.engine.attempt import Attempt, Outcome
from training.engine.data import Batches, RunData
from training.engine.fit import Metrics, Updates, fit
from training.engine.models import Loaded, trainable_parameters
from training.engine.online import Actor, Start, clipped_surrogate


def group_advantages(rewards: Tensor) -> Tensor:
    """(B, G) rewards → advantages within each row; 0 where all rewards of the group agree."""
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on the prompts of labelled rows, without dropout: what acts is what is trained."""
    spec, settings, rows = attempt.spec, attempt.spec.online, data.labelled
    scorer = ActionScorer(loaded.tokenizer, spec.max_prompt_tokens, attempt.device)
    actor = Actor(attempt, loaded.model, scorer, rows)
    batches = Batches([len(ids) for ids in actor.prompts], settings.prompts_per_step, spec.seed)
    start = Start(attempt, actor, batches, settings.steps)
    updates = Updates(trainable_parameters(loaded.model), spec.optimiser, settings.steps)
    actor.follow(updates)

    def take_step(step: int) -> Metrics:
        batch = batches.at(step)
        log_p = actor.score(batch).log_p
        trajectories = actor.draw(batch, log_p, settings.group)
        actor.refuse_foreign(trajectories)
        advantage = group_advantages(trajectories.rewards)
        taken = log_p.gather(1, trajectories.actions)
        kl = start.kl(batch, log_p)
        loss = clipped_surrogate(taken, trajectories.log_p, advantage, settings.clip) + settings.kl * kl
        text = actor.text_loss(batch, trajectories.actions[:, 0].tolist())
        actor.learn(updates, loss + spec.weight_of_text * text)
        return {
            "loss": loss.detach(),
            "reward": trajectories.rewards.mean(),
            "kl": kl.detach(),
            "text_loss": text.detach(),
        }

    metrics = fit(attempt, updates, settings.steps, take_step, "learning from fresh decisions (GRPO)")
    return Outcome(settings.steps, len(rows), metrics)
