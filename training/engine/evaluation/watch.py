"""What a model answers while it is trained: a few rows, the same ones throughout, asked again every so often.

A `Watch` stands beside a training (training.engine.run makes it before the first update; the loops of
training.engine.updates.fit and training.engine.text.bridge ask it). It keeps `samples.json` in the attempt's folder:
the rows, what the model answered before the training and what it answers now, texts cut to CUT characters. From up to
MEASURED rows it measures what every method of choices has in common, of the policy π over a row's options:

    entropy = − mean Σ_a π(a) log π(a)        kl = mean Σ_a π(a) log(π(a) / π_before(a))        in nats

with `heldout_accuracy` and `probability_of_right` where the rows are held out, and `valid_share`, the share of free
answers that are one of the options, or JSON where the completion is. Looking takes a twentieth of the time at most, and
draws nothing at random: the weights become what they would have become without it.
"""

from __future__ import annotations

import math
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.stop import Stopped
from training.engine.data.reading import RunData
from training.engine.evaluation.texts import predict_texts
from training.engine.models.actions import NO_OPTION, ActionScorer
from training.engine.models.loading import Loaded
from training.engine.rows.types import Labelled, Logged, Text, better_text, prompts_of
from training.engine.scoring.generation import write_answers
from training.engine.scoring.rows import divergence, score_rows
from training.engine.spec.samples import SAMPLES_FILE, Asked, Look, Reply, Samples

MEASURED = 64
"""Rows that are scored at each look; those that are shown, and answered freely, are the first of them."""
EVERY_SECONDS = 10.0
SHARE_OF_TIME = 0.05
CUT = 600


@dataclass(frozen=True, slots=True)
class _Choices:
    rows: Sequence[Labelled | Logged]
    prompts: list[list[int]]


class Watch:
    """Looks at `loaded` once, as it is, when it is made."""

    def __init__(self, attempt: Attempt, loaded: Loaded, data: RunData) -> None:
        self._attempt, self._loaded = attempt, loaded
        self._scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
        self._batch_size = attempt.spec.optimiser.batch_size
        self._source: Literal["heldout", "train"] = "heldout" if data.heldout or data.heldout_texts else "train"
        choices, texts = _find_rows(data)
        choices, self._texts = _sample(choices, MEASURED), _sample(texts, attempt.spec.samples)
        self._choices = _Choices(choices, self._scorer.encode(prompts_of(choices)))
        self._shown = len(choices[: attempt.spec.samples]) or len(self._texts)
        self._before: Tensor | None = None
        self._tokens = [0]
        self._hook = _count_tokens(loaded, self._tokens)
        self._first, self._newest, self._due = Look(0, []), Look(-1, []), 0.0
        self._since = time.monotonic()
        self._first, _ = self._look(0)
        self._write(self._first)

    def close(self) -> None:
        self._hook.remove()

    def measure(self, step: int, *, last: bool = False) -> dict[str, float]:
        """Tokens a second since the last call and the memory; with what the rows show, where it is time to look."""
        with suppress(Stopped):  # the training leaves a checkpoint before it ends
            if self._newest.step < step and (last or time.monotonic() >= self._due):
                began = time.monotonic()
                look, found = self._look(step)
                self._write(look)
                self._since += time.monotonic() - began
                return self._measure_speed() | found
        return self._measure_speed()

    def _measure_speed(self) -> dict[str, float]:
        now, tokens = time.monotonic(), self._tokens[0] * self._attempt.processes.count
        seconds, self._since, self._tokens[0] = now - self._since, now, 0
        speed = {"tokens_per_second": tokens / seconds} if seconds > 0 and tokens else {}
        return speed | {"peak_memory_gb": _peak_memory(self._attempt.device)}

    def _look(self, step: int) -> tuple[Look, dict[str, float]]:
        began = time.monotonic()
        with _not_training(self._loaded):
            replies, found = self._choose() if self._choices.rows else self._write_texts()
        took = time.monotonic() - began
        self._due = time.monotonic() + max(EVERY_SECONDS, took * (1 / SHARE_OF_TIME - 1))
        return Look(step, replies), {name: value for name, value in found.items() if math.isfinite(value)}

    def _choose(self) -> tuple[list[Reply], dict[str, float]]:
        rows, attempt = self._choices.rows, self._attempt
        options = [row.options for row in rows]
        log_p = score_rows(
            attempt, self._loaded.model, self._scorer, self._choices.prompts, options, self._batch_size
        ).float()
        if self._before is None:
            self._before = log_p
        p = log_p.exp()
        found = {
            "entropy": float(-(p * log_p * (log_p > NO_OPTION)).sum(1).mean()),
            "kl": float(divergence(log_p, self._before).mean()),
        }
        chances = p.cpu().tolist()
        said = [max(range(len(row.options)), key=chance.__getitem__) for row, chance in zip(rows, chances, strict=True)]
        if self._source == "heldout":
            right = [row.options.index(row.answer) if isinstance(row, Labelled) else -1 for row in rows]
            found["heldout_accuracy"] = sum(map(int.__eq__, said, right)) / len(rows)
            found["probability_of_right"] = sum(chance[at] for chance, at in zip(chances, right, strict=True)) / len(
                rows
            )
        wrote = self._write_freely()
        if wrote:
            valid = [text in row.options for text, row in zip(wrote, rows, strict=False)]
            found["valid_share"] = sum(valid) / len(valid)
        replies = []
        for place in range(self._shown):
            row, at = rows[place], said[place]
            text = wrote[place] if wrote else None
            replies.append(
                Reply(
                    _cut(row.options[at]),
                    chances[place][at],
                    _is_right(row, row.options[at]),
                    _cut(text) if text is not None else None,
                    text in row.options if text is not None else None,
                )
            )
        return replies, found

    def _write_freely(self) -> list[str]:
        """Only where the evaluation will, too: generation is slow."""
        evaluation = self._attempt.spec.evaluate
        if evaluation is None or evaluation.free_rows == 0:
            return []
        return write_answers(self._attempt, self._loaded, self._choices.prompts[: self._shown], self._batch_size).texts

    def _write_texts(self) -> tuple[list[Reply], dict[str, float]]:
        if not self._texts:
            return [], {}
        told = list(predict_texts(self._attempt, "newest", self._loaded, self._texts, self._batch_size))
        replies = [
            Reply(
                _cut(one["action"]), one["p_action"], one["correct"] if self._knows(row) else None, None, one["valid"]
            )
            for one, row in zip(told, self._texts, strict=True)
        ]
        valid = [one["valid"] for one in told if one["valid"] is not None]
        found = {"valid_share": sum(valid) / len(valid)} if valid else {}
        if self._source == "heldout":
            found["heldout_accuracy"] = sum(one["correct"] for one in told) / len(told)
        return replies, found

    def _knows(self, row: Text) -> bool:
        """Whether the row's completion is the right one; a logged text is only what a model once wrote."""
        return self._source == "heldout" or row.reward is None

    def _write(self, look: Look) -> None:
        self._newest = look
        if not self._shown:
            return
        rows = [_asked(row) for row in self._choices.rows[: self._shown] or self._texts]
        written = msgspec.json.encode(Samples(self._source, rows, self._first, look))
        unfinished = self._attempt.folder / f".{SAMPLES_FILE}"
        unfinished.write_bytes(written)
        unfinished.replace(self._attempt.folder / SAMPLES_FILE)
        self._attempt.events.write("samples", step=look.step, path=SAMPLES_FILE)


def _find_rows(data: RunData) -> tuple[Sequence[Labelled | Logged], Sequence[Text]]:
    """Held-out rows, or those to learn from where there are none; a pair counts as its better text."""
    if data.heldout or data.heldout_texts:
        return data.heldout, data.heldout_texts
    pairs = [better_text(row) for row in data.preferences[:MEASURED]]
    return data.labelled or data.logged, data.texts or pairs


def _sample(rows: Sequence[Any], count: int) -> list[Any]:
    """The same ones of the same rows in every run, so that runs can be compared."""
    return random.Random("watch").sample(list(rows), min(count, len(rows)))  # noqa: S311 - a sample, not a secret


def _asked(row: Labelled | Logged | Text) -> Asked:
    prompt, system = _cut(row.prompt), _cut(row.system) if row.system else None
    if isinstance(row, Labelled):
        return Asked(row.id, prompt, answer=_cut(row.answer), system=system)
    if isinstance(row, Logged):
        return Asked(row.id, prompt, action=_cut(row.action), reward=row.reward, system=system)
    if row.reward is None:
        return Asked(row.id, prompt, answer=_cut(row.completion), system=system)
    return Asked(row.id, prompt, action=_cut(row.completion), reward=row.reward, system=system)


def _is_right(row: Labelled | Logged, said: str) -> bool | None:
    """Of a logged row only what its feedback says for certain of the same action."""
    if isinstance(row, Labelled):
        return said == row.answer
    known = row.right if row.right is not None else row.reward
    return bool(known) if said == row.action and known in (0.0, 1.0) else None


def _cut(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def _count_tokens(loaded: Loaded, tokens: list[int]) -> Any:
    """Adds up what the model reads to learn from it, padding included. A plain function: a copy of the model for a
    reference shares it, and reads without gradients."""

    def count(module: Any, given: tuple[Any, ...], found: Any) -> None:
        if torch.is_grad_enabled() and given:
            tokens[0] += given[0].numel()

    return loaded.model.get_input_embeddings().register_forward_hook(count)


@contextmanager
def _not_training(loaded: Loaded) -> Iterator[None]:
    was_training = loaded.model.training
    loaded.model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        loaded.model.train(was_training)


def _peak_memory(device: torch.device) -> float:
    """In GB of 10⁹ bytes: what tensors took on the GPU at most, else the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9
