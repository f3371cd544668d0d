"""GRPO over the episodes of an outside agent: the weights that answered its calls learn from the tokens they wrote.

Every update, `prompts_per_step` tasks are each acted on `group` times by the weights as they are; then

    loss = − 1/N Σ_e 1/|y_e| Σ_t min(ρ_t A_e, clip(ρ_t, 1 − ε, 1 + ε) A_e) + β/N Σ_e 1/|y_e| Σ_t k_t
    ρ_t = π(y_t | …) / π_old(y_t | …),    k_t = r_t − 1 − log r_t,  r_t = π_start(y_t | …) / π(y_t | …)

over the tokens y_e that the model wrote in episode e, in all of its transcripts (Shao et al. 2024, eq. 3 and 4). π is
at the temperature of drawing, π_old the log-probability that was kept with each token, and A_e the episode's standing
in its group. One update a batch: ρ is 1 but for rounding, and `drift`, the largest |log ρ|, shows that. Each transcript
carries the hash of the weights that wrote it, and others are refused. An episode that failed is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.environments.tasks import Task
from training.engine.episodes.credit import advantages
from training.engine.episodes.grpo import starting_policy
from training.engine.episodes.guard import Guard, learn_guarded, open_guard
from training.engine.episodes.kept import NothingToLearn, keep_episodes
from training.engine.episodes.order import TaskOrder
from training.engine.methods.online import ForeignTrajectories
from training.engine.models.acting import ActingHash
from training.engine.models.actions import pad_right
from training.engine.models.loading import Loaded, trainable_parameters
from training.engine.served.policy import Policy
from training.engine.served.rollouts import Rollouts
from training.engine.served.server import serve_policy
from training.engine.served.transcripts import ServedEpisode, Transcript
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.fit import Metrics, Updates


@dataclass(frozen=True, slots=True)
class Taken:
    """A transcript to learn from: `weight` is that of each of its written tokens in the update's loss, and `advantage`
    its episode's."""

    transcript: Transcript
    advantage: float
    weight: float


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place, without dropout: what acts is what is trained."""
    assert attempt.agent is not None
    learner = Learner(attempt, loaded, data)
    with serve_policy(learner.policy) as server:
        return learner.learn(Rollouts(attempt, attempt.agent, learner.policy, server))


class Learner:
    """One run's tasks, policy and updates."""

    def __init__(self, attempt: Attempt, loaded: Loaded, data: RunData) -> None:
        """Call before the weights change or are restored."""
        spec = attempt.spec
        self.attempt, self.tasks, self.settings = attempt, data.tasks, spec.online
        self.loaded, self.data = loaded, data
        self.model: nn.Module = loaded.model
        self.pad = int(loaded.tokenizer.pad_token_id)
        self.start: Callable[[], AbstractContextManager[nn.Module]] | None = None
        if self.settings.kl_of_fresh:
            self.start = starting_policy(loaded, fresh=spec.base.adapter is None)
        self.order = TaskOrder(attempt, data.tasks, {})
        self.updates = Updates(
            trainable_parameters(self.model), spec.optimiser, self.settings.steps, attempt.precision_of(self.model)
        )
        self.accumulation = Accumulation(attempt, self.updates)
        self.acting = ActingHash(loaded)
        self.model.eval()
        self.policy = Policy(attempt, loaded)

    def learn(self, rollouts: Rollouts) -> Outcome:
        def act(tasks: Sequence[Task], step: int) -> list[ServedEpisode]:
            asked = [(task, task.seed) for task in tasks]
            return rollouts.act(asked, self.acting.find(), step)

        guard = open_guard(self.attempt, self.loaded, self.data, self.updates, act)
        return learn_guarded(
            self.attempt,
            self.updates,
            lambda step: self._take_step(step, rollouts, guard),
            f"learning from episodes of {rollouts.agent.name} (GRPO)",
            tasks=len(self.tasks),
            guard=guard,
            kept={},
        )

    def _take_step(self, step: int, rollouts: Rollouts, guard: Guard | None) -> Metrics:
        """Acts first and learns then: where memory runs out, the same episodes are learnt from in smaller parts."""
        tasks = [self.tasks[place] for place in self.order.at(step)]
        places, count = self.attempt.processes.share(len(tasks)), self.settings.group
        first = self.attempt.spec.seed * 1_000_003 + step * count
        asked = [(tasks[place], first + number) for place in places for number in range(count)]
        acted = rollouts.act(asked, self.acting.find(), step)
        groups = {place: acted[at * count : (at + 1) * count] for at, place in enumerate(places)}
        found = self.attempt.processes.gather(acted)
        if all(one.fault is not None for one in found):
            raise NothingToLearn(f"every episode of step {step + 1} failed; the first: {found[0].fault}")
        keep_episodes(self.attempt, step + 1, found)
        metrics = self.learn_from(groups, len(tasks) * count)
        told = {**metrics, **_measure(found)}
        if guard is not None:
            told |= guard.note(step + 1, [found[at : at + count] for at in range(0, len(found), count)])
        return told

    def learn_from(self, groups: dict[int, list[ServedEpisode]], count: int) -> Metrics:
        """One update from the groups, by their place among the tasks of all processes; `count` episodes in all. Raises
        ForeignTrajectories before anything changes."""
        self.refuse_foreign(one for group in groups.values() for one in group)
        drift = torch.zeros(())

        def share_of(part: Sequence[int]) -> tuple[Tensor, Metrics]:
            nonlocal drift
            taken = [one for place in part for one in credit(groups[place], count)]
            loss, told, drifted = self._share(taken)
            drift = torch.maximum(drift, drifted)
            return loss, told

        metrics = self.accumulation.update(count // self.settings.group, share_of)
        return {**metrics, "drift": drift}

    def refuse_foreign(self, episodes: Iterable[ServedEpisode]) -> None:
        """Raises ForeignTrajectories unless the weights as they are now wrote all of them."""
        now = self.acting.find()
        for episode in episodes:
            for made in (episode.weights_hash, *(one.weights_hash for one in episode.transcripts)):
                if made != now:
                    raise ForeignTrajectories(f"task {episode.task}: made by weights {made}, not by {now}")

    def _share(self, taken: Sequence[Taken]) -> tuple[Tensor, Metrics, Tensor]:
        """Loss of these transcripts, what it is made of, and the largest |log ρ|. All but the last part have had their
        gradients added already."""
        # No gradient of its own, but every weight keeps its place in the sum of all processes.
        nothing = sum((p.sum() for p in self.updates.parameters.values()), torch.zeros(())) * 0.0
        told: Metrics = {"loss": nothing.detach(), "kl": nothing.detach()}
        drift, size = torch.zeros(()), self.accumulation.part
        ordered = sorted(taken, key=lambda one: len(one.transcript.token_ids))
        loss: Tensor = nothing
        for start in range(0, len(ordered), size):
            loss, kl, drifted = self._loss_of(ordered[start : start + size])
            told = {"loss": told["loss"] + loss.detach(), "kl": told["kl"] + kl.detach()}
            drift = torch.maximum(drift, drifted.cpu())
            if start + size < len(ordered):
                self.updates.backward(loss)
        return loss, told, drift

    def _loss_of(self, taken: Sequence[Taken]) -> tuple[Tensor, Tensor, Tensor]:
        device, clip = self.attempt.device, self.settings.clip
        transcripts = [one.transcript for one in taken]
        written = [[value is not None for value in one.log_p] for one in transcripts]
        counts = torch.tensor([sum(row) for row in written], device=device)
        old = torch.tensor([value for one in transcripts for value in one.log_p if value is not None], device=device)
        advantage = torch.tensor([one.advantage for one in taken], device=device).repeat_interleave(counts)
        weight = torch.tensor([one.weight for one in taken], device=device).repeat_interleave(counts)
        now = self._log_p(self.model, transcripts, written)
        ratio = (now - old).exp()
        surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        kl = torch.zeros((), device=device)
        if self.start is not None:
            with torch.no_grad(), self.start() as model:
                apart = self._log_p(model, transcripts, written)
            apart = apart - now
            kl = (weight * (apart.exp() - 1 - apart)).sum()
        loss = -(weight * surrogate).sum() + self.settings.kl_of_fresh * kl
        return loss, kl, (now.detach() - old).abs().max()

    def _log_p(self, model: nn.Module, transcripts: Sequence[Transcript], written: Sequence[Sequence[bool]]) -> Tensor:
        """Log-probability of every written token, transcript by transcript, at the temperature of drawing."""
        device = self.attempt.device
        ids, lengths = pad_right([one.token_ids for one in transcripts], self.pad, device)
        mask = torch.arange(ids.shape[1], device=device) < lengths[:, None].to(device)
        wanted = torch.zeros_like(mask)
        for row, flags in enumerate(written):
            wanted[row, : len(flags)] = torch.tensor(flags, device=device)
        with self.attempt.autocast(model):
            logits = model(input_ids=ids, attention_mask=mask.long(), use_cache=False).logits
        # A token is drawn from the logits of the place before it. A first token that was written is none: a prompt
        # is never empty.
        chosen = logits[:, :-1][wanted[:, 1:]].float() / self.attempt.spec.sampling.temperature
        log_p: Tensor = chosen.log_softmax(-1).gather(1, ids[:, 1:][wanted[:, 1:]][:, None])[:, 0]
        return log_p


def credit(group: Sequence[ServedEpisode], count: int) -> list[Taken]:
    """The group's transcripts that teach something, in a loss over `count` episodes."""
    sound = [one for one in group if one.fault is None and one.steps]
    worth = advantages(sound, "episode", gamma=1.0, most_reward=1.0) if sound else []
    taken = []
    for episode, values in zip(sound, worth, strict=True):
        tokens = sum(one.written for one in episode.transcripts)
        taken += [Taken(one, values[0], 1 / (count * tokens)) for one in episode.transcripts if values[0] and tokens]
    return taken


def _measure(episodes: Sequence[ServedEpisode]) -> Metrics:
    """Means over the episodes without a fault, and the share of those with one. `conversations`: transcripts an
    episode; 1 where every call went on with the one before it."""
    sound = [one for one in episodes if one.fault is None]
    told = {
        "reward": sum(one.reward_share for one in sound),
        "solved": sum(one.success for one in sound),
        "score": sum(one.score for one in sound),
        "steps_taken": sum(one.steps for one in sound),
        "conversations": sum(len(one.transcripts) for one in sound),
        "tokens_written": sum(part.written for one in sound for part in one.transcripts),
    }
    means = {name: torch.tensor(value / len(sound)) for name, value in told.items()}
    return means | {"faults": torch.tensor(1 - len(sound) / len(episodes))}
