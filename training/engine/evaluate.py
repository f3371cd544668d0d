"""Evaluates base and trained model on the same held-out rows. Also the whole of method `evaluate`.

`predictions.jsonl` has a line for each row and model, for intervals by cluster and paired comparisons; the result holds
the means. Models are scored as they were saved.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from training.engine.actions import ActionScorer
from training.engine.attempt import Attempt
from training.engine.checkpoints import write_synced
from training.engine.hardware import autocast
from training.engine.models import Loaded
from training.engine.prompts import PromptEncoder
from training.engine.rows import Labelled
from training.engine.scoring import score_rows
from training.engine.spec import Evaluate, ModelScore, Serving

Which = Literal["base", "trained"]


def evaluate(
    attempt: Attempt, models: Mapping[Which, Loaded], rows: Sequence[Labelled], settings: Evaluate
) -> dict[Which, ModelScore]:
    """Scores each model on every row and writes `predictions.jsonl` into the attempt's folder."""
    lines: list[str] = []
    scores: dict[Which, ModelScore] = {}
    for which, loaded in models.items():
        attempt.events.progress(len(scores), len(models), f"evaluating the {which} model")
        warn_of_cuts(attempt, loaded, [row.prompt for row in rows], "held-out rows")
        predictions = list(_predictions(attempt, which, loaded, rows, settings))
        lines += [json.dumps(prediction, ensure_ascii=False) for prediction in predictions]
        scores[which] = ModelScore(
            rows=len(rows),
            accuracy=sum(prediction["correct"] for prediction in predictions) / len(rows),
            probability_of_right=sum(prediction["expected_right"] for prediction in predictions) / len(rows),
            valid_share=valid_share(attempt, loaded, rows, settings),
        )
    write_synced(attempt.folder / "predictions.jsonl", "\n".join(lines) + "\n")
    return scores


def warn_of_cuts(attempt: Attempt, loaded: Loaded, prompts: Sequence[str], what: str) -> None:
    """Says how many of the prompts are too long for the spec, so that their middle is cut."""
    most = attempt.spec.max_prompt_tokens
    cut = PromptEncoder(loaded.tokenizer, most).count_cut(prompts)
    if cut:
        attempt.events.warn(f"{cut} of {len(prompts)} {what} are longer than {most} tokens: their middle is cut")


def serving_probabilities(log_p: Tensor, offered: Tensor, serving: Serving) -> Tensor:
    """(n, K) log-probabilities, (n,) numbers of options → the acting policy: (1 − ε) · p^(1/τ) / Σ p^(1/τ) + ε / K.

    Columns beyond a row's own options are 0.
    """
    inside = torch.arange(log_p.shape[1])[None] < offered[:, None]
    sharpened = (log_p / serving.temperature).masked_fill(~inside, float("-inf")).softmax(-1)
    return (1 - serving.epsilon) * sharpened + serving.epsilon * inside / offered[:, None]


def _predictions(
    attempt: Attempt, which: Which, loaded: Loaded, rows: Sequence[Labelled], settings: Evaluate
) -> Iterator[dict[str, Any]]:
    scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    prompts = scorer.encode([row.prompt for row in rows])
    options = [row.options for row in rows]
    log_p = score_rows(attempt, loaded.model, scorer, prompts, options, settings.batch_size).cpu().double()
    acting = serving_probabilities(log_p, torch.tensor([len(row) for row in options]), attempt.spec.serving).tolist()
    for row, row_p, row_acting in zip(rows, log_p.exp().tolist(), acting, strict=True):
        p = row_p[: len(row.options)]
        chosen = max(range(len(p)), key=p.__getitem__)
        right = row.options.index(row.answer)
        yield {
            "id": row.id,
            "group": row.group,
            "model": which,
            "action": row.options[chosen],
            "p_action": p[chosen],
            "p_answer": p[right],
            "correct": chosen == right,
            "p": [round(value, 7) for value in p],
            "expected_right": row_acting[right],
        }


@torch.no_grad()
def valid_share(attempt: Attempt, loaded: Loaded, rows: Sequence[Labelled], settings: Evaluate) -> float | None:
    """Share of free greedy generations that are one of the row's options, on a fixed sample; None without one."""
    count = min(settings.free_rows, len(rows))
    if count == 0:
        return None
    sample = random.Random("free").sample(list(rows), count)  # noqa: S311 - the same rows for every model
    prompts = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens).encode([row.prompt for row in sample])
    order = sorted(range(count), key=lambda i: len(prompts[i]))
    valid = 0
    for start in range(0, count, settings.batch_size):
        attempt.stop.check()
        batch = order[start : start + settings.batch_size]
        padded = loaded.tokenizer.pad({"input_ids": [prompts[i] for i in batch]}, return_tensors="pt")
        with autocast(attempt.device):
            generated = loaded.model.generate(
                input_ids=padded["input_ids"].to(attempt.device),
                attention_mask=padded["attention_mask"].to(attempt.device),
                max_new_tokens=attempt.spec.max_completion_tokens,
                do_sample=False,
                pad_token_id=loaded.tokenizer.pad_token_id,
                eos_token_id=loaded.tokenizer.eos_token_id,
            )
        texts = loaded.tokenizer.batch_decode(generated[:, padded["input_ids"].shape[1] :], skip_special_tokens=True)
        valid += sum(text.strip() in sample[i].options for i, text in zip(batch, texts, strict=True))
    return valid / count
