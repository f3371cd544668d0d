"""Rollouts of an outside agent: several episodes at once, each in a thread, while the training thread answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from training.engine.attempt.attempt import Attempt
from training.engine.environments.episodes import Step
from training.engine.environments.outside import Endpoint, Graded, OutsideAgent
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task
from training.engine.models.acting import hash_saved
from training.engine.models.loading import Loaded
from training.engine.served.policy import Policy, Session
from training.engine.served.server import PolicyServer, serve_policy
from training.engine.served.transcripts import ServedEpisode, Transcript, split_calls

log = logging.getLogger(__name__)


def act_once(
    attempt: Attempt, agent: OutsideAgent, loaded: Loaded, tasks: Sequence[Task], *, greedy: bool = False
) -> list[ServedEpisode]:
    """An episode of each task with its own seed, in their order, by a model that is not in training; with `greedy` at
    temperature 0. Raises Stopped."""
    policy = Policy(attempt, loaded, greedy=greedy)
    acted = hash_saved(loaded)
    with serve_policy(policy) as server:
        rollouts = Rollouts(attempt, agent, policy, server)
        return rollouts.act([(task, task.seed) for task in tasks], acted, attempt.spec.online.steps)


class Rollouts:
    """One run's agent and the policy that it asks."""

    def __init__(self, attempt: Attempt, agent: OutsideAgent, policy: Policy, server: PolicyServer) -> None:
        self.attempt, self.agent, self.policy, self.server = attempt, agent, policy, server

    def act(self, asked: Sequence[tuple[Task, int]], weights_hash: str, step: int) -> list[ServedEpisode]:
        """An episode of each task with its seed, in their order, by the weights as they are, whose hash is given. One
        that fails says so in `fault`. Raises Stopped, after `step` updates."""
        self.server.weights_hash = weights_hash
        found: list[ServedEpisode | None] = [None] * len(asked)
        places, turn = iter(range(len(asked))), threading.Lock()
        stopping = threading.Event()

        def work() -> None:
            while not stopping.is_set():
                with turn:
                    place = next(places, None)
                if place is None:
                    break
                found[place] = self._act(*asked[place], weights_hash)
            self.policy.wake()

        threads = [
            threading.Thread(target=work, name=f"agent-{number}", daemon=True)
            for number in range(min(self.agent.at_once, len(asked)))
        ]
        for thread in threads:
            thread.start()
        try:
            self.policy.answer_until(lambda: not any(thread.is_alive() for thread in threads), step)
        finally:
            stopping.set()
        return [one for one in found if one is not None]

    def _act(self, task: Task, seed: int, weights_hash: str) -> ServedEpisode:
        graded, fault = Graded(0.0, success=False, score=0.0), None
        with self.policy.session(f"{task.id}/{seed}") as session:
            endpoint = Endpoint(self.server.base_url, session.key)
            try:
                graded = self.agent.act(task, seed, endpoint)
            except EnvironmentFault as failed:
                fault = str(failed)
            except Exception as error:  # a package's own code: one episode's fault is not the run's
                log.exception("agent %s failed on task %s", self.agent.name, task.id)
                fault = f"{type(error).__name__}: {error}"
        return self._end(task, seed, session, graded, weights_hash, fault)

    def _end(
        self, task: Task, seed: int, session: Session, graded: Graded, weights_hash: str, fault: str | None
    ) -> ServedEpisode:
        transcripts = session.transcripts(weights_hash)
        return ServedEpisode(
            task=task.id,
            problem=task.text,
            environment=task.environment,
            seed=seed,
            trajectory=tuple(step for one in transcripts for step in self._steps(one)),
            total_reward=graded.reward,
            success=graded.success,
            score=graded.score,
            domain=task.domain,
            group=task.group,
            weights_hash=weights_hash,
            fault=fault,
            components=dict(graded.components),
            transcripts=transcripts,
        )

    def _steps(self, transcript: Transcript) -> list[Step]:
        """A step of each call, for people: what the model read since its last answer, and what it wrote."""
        base, steps, known = self.policy.base, list[Step](), 0
        for call in split_calls(transcript):
            read: str = base.tokenizer.decode(call.prompt_token_ids[known:])
            steps.append(Step(read, base.decode(call.token_ids), 0.0, "", (), sum(call.log_p)))
            known = len(call.prompt_token_ids) + len(call.token_ids)
        return steps
