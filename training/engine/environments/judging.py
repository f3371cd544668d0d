"""A judge: a model behind an OpenAI-compatible server that scores what episodes made. No torch.

Training and evaluation on tasks ask it where the spec has a `judge`. That it agrees with people is checked where the
ledger is, before a run starts (docs/judges.md); the engine asks whatever its spec names. A judge that fails says
nothing of an episode, which is left out and never counts as 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import msgspec

from models_registry.backends.pinned import PinnedTransport
from training.engine.environments.episodes import Episode
from training.engine.environments.registry import find_environment
from training.engine.spec.settings import Judge

AT_ONCE = 8
"""Requests under way."""
WANTED = 'a number from 0 to 1, or {"score": number}'


class JudgeFailed(RuntimeError):
    """The judge gave no score; the message says why."""


class JudgeModel:
    """What was asked before is remembered: episodes of one task often end alike."""

    def __init__(self, settings: Judge) -> None:
        """Raises ValueError without a URL."""
        if settings.url is None:
            raise ValueError("judge.url: is missing")
        self.settings = settings
        self._known: dict[str, float] = {}

    def score(self, asked: Sequence[tuple[str, str]]) -> list[float | JudgeFailed]:
        """Of each (task, work) the score in [0, 1], or why there is none. Greedy, several at once."""
        prompts = [self.settings.prompt.replace("{task}", task).replace("{work}", work) for task, work in asked]
        fresh = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._known]
        with self._open() as client, ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(fresh, pool.map(partial(self._ask, client), fresh), strict=True))
        self._known |= {prompt: score for prompt, score in found.items() if not isinstance(score, JudgeFailed)}
        return [found[prompt] if prompt in found else self._known[prompt] for prompt in prompts]

    def _open(self) -> httpx.Client:
        settings = self.settings
        assert settings.url is not None
        key = os.environ.get(settings.key_variable, "") if settings.key_variable else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(
            base_url=settings.url,
            timeout=settings.timeout_seconds,
            headers=headers,
            transport=PinnedTransport(limits=httpx.Limits(max_connections=AT_ONCE)),
            trust_env=False,
        )

    def _ask(self, client: httpx.Client, prompt: str) -> float | JudgeFailed:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.settings.model, "messages": messages, "temperature": 0}
        try:
            answer = client.post("/chat/completions", json=body).raise_for_status()
            return read_score(answer.json()["choices"][0]["message"]["content"])
        except JudgeFailed as error:
            return error
        except httpx.HTTPError as error:
            return JudgeFailed(f"it does not answer: {type(error).__name__}: {error}")
        except (ValueError, LookupError, TypeError) as error:
            return JudgeFailed(f"its answer is not a chat completion: {type(error).__name__}: {error}")


def read_score(text: str) -> float:
    """From what the judge wrote. Raises JudgeFailed."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        found = found.get("score")
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        raise JudgeFailed(f"it answered {text[:80]!r}; expected: {WANTED}")
    return float(found)


def open_judge(settings: Judge | None) -> JudgeModel | None:
    """None without one."""
    return JudgeModel(settings) if settings is not None else None


def judge_episodes(judge: JudgeModel, ended: Sequence[tuple[Episode, str]]) -> list[Episode]:
    """The episodes with the judge's score of their works as the environment's criterion that is `judged`.

    An episode without a work, or with a fault, stays as it is. Of the reward, the judge decides the settings' `share`
    s: each step earns 1 − s of what the environment paid, and the last one s · score · `most_reward` besides.
    """
    open_ones = [place for place, (episode, work) in enumerate(ended) if work and episode.fault is None]
    scores = judge.score([(ended[place][0].problem, ended[place][1]) for place in open_ones])
    known = dict(zip(open_ones, scores, strict=True))
    share = judge.settings.share
    return [_judged(episode, known.get(place), share) for place, (episode, _) in enumerate(ended)]


def _judged(episode: Episode, score: float | JudgeFailed | None, share: float) -> Episode:
    if isinstance(score, JudgeFailed):
        fault = f"the judge failed: {score}"
        return msgspec.structs.replace(episode, fault=fault, success=False, score=0.0, components={})
    if episode.fault is not None:
        return episode
    environment = find_environment(episode.environment)
    steps = [msgspec.structs.replace(step, reward=(1 - share) * step.reward) for step in episode.trajectory]
    components = dict(episode.components)
    if score is not None:
        components[environment.judged] = score
        last = steps[-1]
        steps[-1] = msgspec.structs.replace(last, reward=last.reward + share * score * environment.most_reward)
    return msgspec.structs.replace(
        episode, trajectory=tuple(steps), total_reward=sum(step.reward for step in steps), components=components
    )
