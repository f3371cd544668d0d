"""Evaluation of held-out texts (called by training.engine.evaluation.evaluate): a model writes its own answer to each
prompt.

Answers are greedy. A prediction says what one of labelled rows says: `action` is the answer, with calls of the row's
tools as completions have them, `correct` whether it equals the row's completion (of JSON and calls: whether both decide
the same, by `data.compared`; words beside calls do not count), `p_answer` the chance that the model writes exactly the
completion, `log_p` its logarithm, and `valid` whether the answer is JSON, null where the completion is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.memory import score_in_batches
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded
from training.engine.rows.calls import as_completion
from training.engine.rows.types import Text
from training.engine.scoring.generation import write_answers
from training.engine.spec.result import ModelScore
from training.engine.spec.reward_function import read_value
from training.engine.updates.answers import answer_logits


def predict_texts(
    attempt: Attempt, which: str, loaded: Loaded, rows: Sequence[Text], batch_size: int
) -> Iterator[dict[str, Any]]:
    """One prediction a row, in the order of the rows."""
    scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    prompts, replies = scorer.prompts.encode_rows(rows)
    written = write_answers(attempt, loaded, prompts, batch_size)
    if written.cut:
        most = attempt.spec.max_completion_tokens
        attempt.events.warn(
            f"{written.cut} of {len(rows)} answers of the {which} model were cut after {most} tokens "
            "(max_completion_tokens)"
        )
    wanted = _log_p(attempt, loaded, scorer, prompts, replies, batch_size)
    own = _log_p(attempt, loaded, scorer, prompts, written.tokens, batch_size)
    compared = attempt.spec.data.compared
    for row, text, log_p, own_log_p in zip(rows, written.texts, wanted, own, strict=True):
        completion, answer = row.completion.strip(), as_completion(text, row.tools or ())
        meant, said = read_value(completion), read_value(answer)
        yield {
            "id": row.id,
            "group": row.group,
            "model": which,
            "action": answer,
            "p_action": math.exp(own_log_p),
            "p_answer": math.exp(log_p),
            "correct": answer == completion if meant is None else compared.is_same(said, meant),
            "expected_right": math.exp(log_p),
            "log_p": log_p,
            "valid": None if meant is None else type(said) is type(meant),
        }


def score_texts(predictions: Sequence[Mapping[str, Any]]) -> ModelScore:
    """Means over one model's predictions."""
    valid = [prediction["valid"] for prediction in predictions if prediction["valid"] is not None]
    rows = len(predictions)
    return ModelScore(
        rows=rows,
        accuracy=sum(prediction["correct"] for prediction in predictions) / rows,
        probability_of_right=sum(prediction["p_answer"] for prediction in predictions) / rows,
        valid_share=sum(valid) / len(valid) if valid else None,
        log_p=math.fsum(prediction["log_p"] for prediction in predictions) / rows,
    )


@torch.no_grad()
def _log_p(
    attempt: Attempt,
    loaded: Loaded,
    scorer: ActionScorer,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    batch_size: int,
) -> list[float]:
    """log p(answer, its end among it | prompt) of each under the plain language model, in nats."""
    found = [0.0] * len(prompts)

    def score(batch: list[int]) -> None:
        with attempt.autocast(loaded.model):
            logits, tokens = answer_logits(
                loaded.model, scorer, [prompts[i] for i in batch], [answers[i] for i in batch]
            )
        of_tokens = iter(logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0].tolist())
        for row in batch:
            found[row] = math.fsum(islice(of_tokens, len(answers[row])))

    lengths = [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]
    score_in_batches(attempt, lengths, batch_size, score)
    return found
