"""Evaluates base and trained model on the same held-out rows. Also the whole of method `evaluate`.

`predictions.jsonl` has a line for each row and model, for intervals by cluster and paired comparisons; the result holds
the means. `rankings.jsonl` has the scores of the items of held-out rankings, `log.jsonl` what the trained model thinks
of each decision of `data.log`. Models are scored as they were
saved.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.checkpoints import write_synced
from training.engine.attempt.events import MEASURING
from training.engine.classifiers.policy import Classifier
from training.engine.data.reading import RunData
from training.engine.environments.tasks import Task
from training.engine.episodes.evaluate import Acted, act_on, predict_episodes, score_episodes, write_episodes
from training.engine.evaluation.texts import predict_texts, score_texts
from training.engine.models.actions import NO_OPTION, ActionScorer
from training.engine.models.loading import Loaded
from training.engine.models.prompts import NO_SYSTEM_ROLE, PromptEncoder, find_room, messages_of, system_of
from training.engine.rows.slates import log_odds
from training.engine.rows.types import YES, Labelled, Logged, Prompt, Row, Text, prompts_of
from training.engine.scoring.generation import write_answers
from training.engine.scoring.rows import score_rows, serving_probabilities
from training.engine.spec.refused import Refused
from training.engine.spec.result import ModelScore, SuiteAnswers
from training.engine.spec.run_spec import Evaluate

Which = Literal["base", "trained"]
Policy = Loaded | Classifier
PROBABILITY_DIGITS = 7
SUITE_FREE_ROWS = 100
"""At most so many rows of a suite are also answered by free generation, which is slow."""


@dataclass(slots=True)
class Evaluated:
    """`scores` on the held-out rows, and the files that were written into the attempt's folder."""

    scores: dict[Which, ModelScore] = field(default_factory=dict)
    predictions: str | None = None
    rankings: str | None = None
    log: str | None = None
    episodes: str | None = None
    suites: dict[str, SuiteAnswers] = field(default_factory=dict)


def evaluate(attempt: Attempt, models: Mapping[Which, Policy], data: RunData, settings: Evaluate) -> Evaluated:
    """Scores each model on every held-out row, and the last one on the log and the suites. Loads no model in vain."""
    found = Evaluated()
    lines: list[str] = []
    ranked: list[str] = []
    acted: list[str] = []
    batch_size = settings.batch_size
    newest = list(models)[-1]
    for number, which in enumerate(models):
        if not (data.heldout or data.heldout_texts or data.heldout_tasks) and which != newest:
            continue
        attempt.events.progress(number, len(models), f"evaluating the {which} model", MEASURING)
        loaded = models[which]
        if data.heldout:
            warn_of_cuts(attempt, loaded, prompts_of(data.heldout), "held-out rows")
            began = time.monotonic()
            predictions = list(_predictions(attempt, which, loaded, data.heldout, settings))
            milliseconds = 1000 * (time.monotonic() - began) / len(predictions)
            lines += [json.dumps(prediction, ensure_ascii=False) for prediction in predictions]
            valid = valid_share(attempt, loaded, data.heldout, settings)
            found.scores[which] = _score(predictions, valid, round(milliseconds, 4))
            ranked += _score_rankings(attempt, which, loaded, data, predictions, settings)
        if isinstance(loaded, Classifier) and (data.heldout_texts or data.heldout_tasks):
            raise Refused("a classifier writes no texts and acts on no tasks: measure it on labelled or logged rows")
        if data.heldout_texts:
            assert isinstance(loaded, Loaded)
            warn_of_cuts(attempt, loaded, prompts_of(data.heldout_texts), "held-out texts")
            predictions = list(predict_texts(attempt, which, loaded, data.heldout_texts, batch_size))
            lines += [json.dumps(prediction, ensure_ascii=False) for prediction in predictions]
            found.scores[which] = score_texts(predictions)
        if data.heldout_tasks:
            assert isinstance(loaded, Loaded)
            episodes = _act(attempt, loaded, data.heldout_tasks, batch_size)
            lines += [json.dumps(prediction) for prediction in predict_episodes(which, episodes)]
            acted += write_episodes(which, episodes)
            found.scores[which] = score_episodes(episodes)
        if which == newest:
            if data.log:
                found.log = write_lines(attempt, "log.jsonl", list(_thoughts(attempt, loaded, data.log, settings)))
            for name, rows in data.suites.items():
                attempt.events.progress(number, len(models), "answering the suites", MEASURING)
                predictions = list(_predictions(attempt, which, loaded, rows, settings))
                asked = settings.model_copy(update={"free_rows": min(settings.free_rows, len(rows), SUITE_FREE_ROWS)})
                valid = valid_share(attempt, loaded, rows, asked)
                found.suites[name] = _keep_suite(attempt, name, predictions, valid, asked.free_rows)
            for name, texts in data.text_suites.items():
                if isinstance(loaded, Classifier):
                    attempt.events.warn("a classifier writes no texts: suites of texts are left out")
                    break
                attempt.events.progress(number, len(models), "answering the suites of texts", MEASURING)
                predictions = list(predict_texts(_with_room(attempt, loaded, texts), which, loaded, texts, batch_size))
                judged = sum(prediction["valid"] is not None for prediction in predictions)
                valid = score_texts(predictions).valid_share
                found.suites[name] = _keep_suite(attempt, name, predictions, valid, judged)
    if lines:
        found.predictions = write_lines(attempt, "predictions.jsonl", lines)
    if acted:
        found.episodes = write_lines(attempt, "heldout_episodes.jsonl", acted)
    if ranked:
        found.rankings = write_lines(attempt, "rankings.jsonl", ranked)
    return found


def _act(attempt: Attempt, loaded: Loaded, tasks: Sequence[Task], batch_size: int) -> Acted:
    if attempt.agent is None:
        return act_on(attempt, loaded, tasks, batch_size)
    from training.engine.served.rollouts import act_once  # with the model server, which no other run needs

    serving, greedy = (act_once(attempt, attempt.agent, loaded, tasks, greedy=greedy) for greedy in (False, True))
    return Acted(serving, greedy)


def _keep_suite(
    attempt: Attempt, name: str, predictions: Sequence[Mapping[str, Any]], valid: float | None, judged: int
) -> SuiteAnswers:
    lines = [json.dumps(prediction, ensure_ascii=False) for prediction in predictions]
    return SuiteAnswers(
        predictions=write_lines(attempt, f"suite-{name}.jsonl", lines), valid_share=valid, free_rows=judged
    )


def _with_room(attempt: Attempt, loaded: Loaded, texts: Sequence[Text]) -> Attempt:
    """The same attempt, with room for the longest of a suite's texts: every version has as much, whatever its run."""
    room = find_room(loaded.tokenizer, loaded.model.config, attempt.spec.max_prompt_tokens, texts)
    return replace(attempt, spec=attempt.spec.model_copy(update={"max_completion_tokens": room}))


def write_lines(attempt: Attempt, name: str, lines: Iterable[str]) -> str:
    """Writes the lines into the attempt's folder; the file's name."""
    write_synced(attempt.folder / name, "\n".join(lines) + "\n")
    return name


def _score(predictions: Sequence[Mapping[str, Any]], valid: float | None, milliseconds: float) -> ModelScore:
    return ModelScore(
        rows=len(predictions),
        accuracy=sum(prediction["correct"] for prediction in predictions) / len(predictions),
        probability_of_right=sum(prediction["expected_right"] for prediction in predictions) / len(predictions),
        valid_share=valid,
        milliseconds=milliseconds,
    )


def warn_of_cuts(attempt: Attempt, loaded: Policy, prompts: Sequence[Prompt], what: str) -> None:
    """Says how many of the prompts are too long for the spec, so that their middle is cut, and once where their system
    prompts stand if the template has no place for them. Raises SystemPromptTooLong."""
    if isinstance(loaded, Classifier):
        return  # it reads texts of any length
    most = attempt.spec.max_prompt_tokens
    encoder = PromptEncoder(loaded.tokenizer, most)
    folds = any(system_of(messages_of(prompt)) for prompt in prompts) and not encoder.knows_system
    if folds and NO_SYSTEM_ROLE not in attempt.events.warnings:
        attempt.events.warn(NO_SYSTEM_ROLE)
    cut = encoder.count_cut(prompts)
    if cut:
        attempt.events.warn(f"{cut} of {len(prompts)} {what} are longer than {most} tokens: their middle is cut")


def _log_probabilities(attempt: Attempt, loaded: Policy, rows: Sequence[Row], settings: Evaluate) -> Tensor:
    """(n, K) of the model itself, float64 on the CPU; columns beyond a row's own options are NO_OPTION."""
    if isinstance(loaded, Classifier):
        scored = loaded.log_probabilities(prompts_of(rows), [row.options for row in rows])
        log_p = torch.full((len(rows), max(map(len, scored))), NO_OPTION, dtype=torch.float64)
        for place, of_row in enumerate(scored):
            log_p[place, : len(of_row)] = torch.from_numpy(of_row)
        return log_p
    scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    prompts = scorer.encode(prompts_of(rows))
    options = [row.options for row in rows]
    return score_rows(attempt, loaded.model, scorer, prompts, options, settings.batch_size).cpu().double()


def _thoughts(attempt: Attempt, loaded: Policy, rows: Sequence[Logged], settings: Evaluate) -> Iterator[str]:
    """Only ids and probabilities: the line says nothing of what a person wrote."""
    log_p = _log_probabilities(attempt, loaded, rows, settings)
    for row, p in zip(rows, log_p.exp().tolist(), strict=True):
        yield json.dumps({"id": row.id, "p": [round(value, PROBABILITY_DIGITS) for value in p[: len(row.options)]]})


def _predictions(
    attempt: Attempt, which: Which, loaded: Policy, rows: Sequence[Labelled], settings: Evaluate
) -> Iterator[dict[str, Any]]:
    log_p = _log_probabilities(attempt, loaded, rows, settings)
    offered = torch.tensor([len(row.options) for row in rows])
    acting = serving_probabilities(log_p, offered, attempt.spec.serving).tolist()
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
            "p": [round(value, PROBABILITY_DIGITS) for value in p],
            "expected_right": row_acting[right],
        }


def _score_rankings(
    attempt: Attempt,
    which: Which,
    loaded: Policy,
    data: RunData,
    predictions: Sequence[Mapping[str, Any]],
    settings: Evaluate,
) -> Iterator[str]:
    """A line for each held-out ranking. Items that no prediction is of are scored here: of decisions, those that nobody
    judged by themselves."""
    rows = [row for ranking in data.rankings for row in ranking.items]
    p = {prediction["id"]: prediction["p"] for prediction in predictions}
    rest = [row for row in rows if row.id not in p]
    if rest:
        log_p = _log_probabilities(attempt, loaded, rest, settings).exp().tolist()
        p |= {row.id: row_p for row, row_p in zip(rest, log_p, strict=True)}
    for ranking in data.rankings:
        scores = [log_odds(p[row.id][row.options.index(YES)]) for row in ranking.items]
        told = {"id": ranking.id, "group": ranking.group, "model": which, "items": [row.id for row in ranking.items]}
        yield json.dumps(told | {"scores": scores, "relevant": ranking.relevant})


def valid_share(attempt: Attempt, loaded: Policy, rows: Sequence[Labelled], settings: Evaluate) -> float | None:
    """Share of free greedy generations that are one of the row's options, on a fixed sample; None without one."""
    count = min(settings.free_rows, len(rows))
    if count == 0 or isinstance(loaded, Classifier):
        return None
    sample = random.Random("free").sample(list(rows), count)  # noqa: S311 - the same rows for every model
    prompts = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens).encode(prompts_of(sample))
    answers = write_answers(attempt, loaded, prompts, settings.batch_size).texts
    return sum(answer in row.options for answer, row in zip(answers, sample, strict=True)) / count
