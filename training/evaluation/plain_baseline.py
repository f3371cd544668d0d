"""A plain classifier of words beside a model, taught from the same feedback: what the model has to beat.

Texts are counted by words and pieces of words (tf-idf), and told apart by a linear support vector machine, one option
against the others. It learns from everything that the run was told to be right: labels, replayed labels, and logged
decisions that feedback confirmed. A run's supervisor, suites and `manage.py evaluate` call it; scikit-learn is loaded
when something is fitted. Of rankings it learns of single items whether they were right for the first place, and orders
them by its margin. Texts have no such classifier.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from django.conf import settings

from decisions.labelling.classifier import Machines, learn_machines, make_features, shorten
from models_registry.models import ModelVersion
from models_registry.statistics.intervals import clustered_mean, paired_difference
from training.engine.rows.slates import Ranking, find_rankings
from training.engine.rows.types import NO, RIGHT_ABOVE, YES, Labelled, Logged, find_answers, right_or_wrong
from training.engine.spec.methods import RowKind
from training.engine.spec.run_spec import RunSpec, is_held_back
from training.evaluation.rankings import Scored, compare_rankings, measure_rankings
from training.evaluation.scores import as_plain, read_rankings
from training.models import TrainingRun

MOST_ROWS = 20_000
FEWEST_OPTIONS, MOST_OPTIONS = 2, 200
"""With more distinct actions they are hardly the same ones again, and a classifier of actions tells nothing."""
COMMON_FROM = 1_000
"""From so many texts on, words that only one of them has are left out: half of the time, and no worse."""

R = TypeVar("R", Labelled, Logged)
Lessons = Sequence[tuple[str, str]]
"""Texts, each with the action that was right."""


@dataclass(frozen=True, slots=True)
class Words:
    """The classifier; `rows` is how many it learnt from."""

    rows: int
    _features: Any
    _machines: Machines

    def choose(self, asked: Sequence[Labelled]) -> list[str]:
        """The likeliest of the options of each row; "" where it knows none of them."""
        scores = self._score([row.prompt for row in asked])
        actions = self._machines.actions
        place_of = {action: place for place, action in enumerate(actions)}
        chosen = []
        for row, row_scores in zip(asked, scores, strict=True):
            known = [place_of[option] for option in row.options if option in place_of]
            chosen.append(actions[max(known, key=row_scores.__getitem__)] if known else "")
        return chosen

    def rank(self, rankings: Sequence[Ranking]) -> list[Scored]:
        """The rankings with its own scores: the margin of yes over no."""
        yes, no = (self._machines.actions.index(answer) for answer in (YES, NO))
        found = []
        for one in rankings:
            scores = self._score([row.prompt for row in one.items])
            found.append(Scored(one.id, one.group, [float(row[yes] - row[no]) for row in scores], one.relevant))
        return found

    def _score(self, prompts: Sequence[str]) -> Any:
        """(n, actions) margins."""
        return self._machines.score(self._features.transform(list(map(shorten, prompts))))

    @property
    def ranks(self) -> bool:
        """Whether it was taught from items of rankings."""
        return {YES, NO} <= set(self._machines.actions)


def teach_words(lessons: Lessons, *, seed: int = 0) -> Words | None:
    """None where there is nothing to tell apart: fewer than 2 actions, more than 200, or no words. Of more than 20,000
    lessons a sample is learnt."""
    if len(lessons) > MOST_ROWS:
        lessons = random.Random(seed).sample(lessons, MOST_ROWS)  # noqa: S311 - a sample, not a secret
    actions = [action for _, action in lessons]
    if not FEWEST_OPTIONS <= len(set(actions)) <= MOST_OPTIONS:
        return None
    features = make_features(seen_in=1 if len(lessons) < COMMON_FROM else 2)
    try:
        counted = features.fit_transform([shorten(text) for text, _ in lessons])
    except ValueError:  # an empty vocabulary: the texts hold no words, or none that two of them share
        return None
    return Words(len(lessons), features, learn_machines(counted, actions, seed=seed))


def read_lessons(run_dir: Path) -> Lessons:
    """What the run in this folder was told to be right; nothing where its rows do not choose among options, or were
    erased since."""
    try:
        spec = RunSpec.model_validate_json((run_dir / "spec.json").read_bytes())
        return [*_trained_on(spec, run_dir), *_labels(run_dir, spec.data.replay)]
    except FileNotFoundError:
        return []


def teach_words_of(version: ModelVersion) -> Words | None:
    """From what the run that made the version had learnt from; None where no run did, or its rows are gone."""
    run = TrainingRun.objects.filter(produced_version=version).first()
    return teach_words(read_lessons(settings.RUNS / str(run.id))) if run is not None else None


def _trained_on(spec: RunSpec, run_dir: Path) -> Iterator[tuple[str, str]]:
    if spec.train_rows is RowKind.LABELLED:
        yield from _labels(run_dir, spec.data.train)
    elif spec.train_rows is RowKind.LOGGED and spec.data.train is not None:
        logged = _read(run_dir / spec.data.train, Logged)
        kept = [row for row in logged if not is_held_back(row.id, row.group, spec.held_back)]
        if any(row.slate is not None for row in kept):
            yield from ((row.prompt, row.answer) for row in find_answers(kept)[0])
            return
        yield from ((row.prompt, row.action) for row, right in right_or_wrong(kept) if right > RIGHT_ABOVE)


def _labels(run_dir: Path, path: str | None) -> Iterator[tuple[str, str]]:
    return ((row.prompt, row.answer) for row in _read(run_dir / path, Labelled)) if path is not None else iter(())


def _read(path: Path, kind: type[R]) -> list[R]:
    decode = msgspec.json.Decoder(kind).decode
    with path.open("rb") as lines:
        return [decode(line) for line in lines if line.strip()]


def compare_with_words(
    words: Words, asked: Sequence[Labelled], correct: Sequence[bool], ranked: Sequence[Scored] = ()
) -> dict[str, Any]:
    """`correct`: whether the model was right on each of the rows. `ranked`: the rankings among them, by the model.

    {accuracy: of the words, difference: the model's accuracy less theirs, paired; both as intervals clustered by group;
    rows: how many the words learnt from; rankings: by measure {words, difference}, where there are any}.
    """
    chosen = words.choose(asked)
    hits = [float(action == row.answer) for action, row in zip(chosen, asked, strict=True)]
    groups = [row.group or row.id for row in asked]
    return {
        "accuracy": as_plain(clustered_mean(hits, groups), 0.0, 1.0),
        "difference": as_plain(paired_difference([float(one) for one in correct], hits, groups), -1.0, 1.0),
        "rows": words.rows,
        **_compare_rankings(words, find_rankings(asked), ranked),
    }


def _compare_rankings(words: Words, asked: Sequence[Ranking], ranked: Sequence[Scored]) -> dict[str, Any]:
    """Empty without rankings, or where the words never learnt of one."""
    if not ranked or not words.ranks:
        return {}
    by_words = words.rank(asked)
    reached, differences = measure_rankings(by_words), compare_rankings(ranked, by_words)
    told = {
        name: {"words": as_plain(reached[name], 0.0, 1.0), "difference": as_plain(one, -1.0, 1.0)}
        for name, one in differences.items()
    }
    return {"rankings": told}


def compare_on_heldout(
    words: Words, run_dir: Path, predictions: Path, rankings: Path | None = None
) -> dict[str, Any] | None:
    """As `compare_with_words`, of the trained model on the run's held-out rows; None where those have no options.
    `rankings`: what the engine wrote of the held-out rankings."""
    spec = RunSpec.model_validate_json((run_dir / "spec.json").read_bytes())
    if spec.data.heldout is None or spec.heldout_rows in (RowKind.TEXT, RowKind.TASKS):
        return None
    with predictions.open(encoding="utf-8") as lines:
        told = [row for row in map(json.loads, lines) if row["model"] == "trained"]
    right = {row["id"]: row["correct"] for row in told}
    if not right:
        return None
    path = run_dir / spec.data.heldout
    ranked = read_rankings(rankings)[0].get("trained", []) if rankings is not None else []
    if spec.heldout_rows is RowKind.LOGGED:
        decisions = _read(path, Logged)
        asked, lists = find_answers(decisions)[0], find_rankings(decisions)
    else:
        asked = _read(path, Labelled)
        lists = find_rankings(asked)
    found = compare_with_words(words, asked, [right[row.id] for row in asked])
    return found | _compare_rankings(words, lists, ranked)
