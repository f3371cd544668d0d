"""From a version's answers to a suite: measures with intervals, and the paired difference of two versions. No database.

The reward is of the model's own likeliest action, by the suite's scorer; what was logged plays no part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from decisions.rewards.components import COMPONENTS, ComponentError, Facts
from models_registry.statistics.intervals import clustered_mean, paired_difference, share_interval, wilson_interval
from training.engine.rows.slates import log_odds
from training.engine.rows.types import NO, YES
from training.engine.spec.compared import PLAIN, Compared
from training.engine.spec.reward_function import RewardFunction, facts_of_text
from training.engine.spec.run_spec import RewardComponent
from training.evaluation.predictions import calculate_reliability, calibration_error
from training.evaluation.rankings import Scored, compare_rankings, measure_rankings
from training.evaluation.scores import as_plain
from training.evaluation.suites.texts import compare_fields
from training.rows.parts import SLICES

ERRORS = 25
"""So many wrong answers are kept as samples, the surest first."""

OF_ANSWERS = frozenset({"matches_answer"})
OF_TEXTS = frozenset({"matches_answer", "valid_json", "retriever.coherence", "retriever.style"})
"""Our own components that need only what a suite knows of a choice, or of a text: the action, the right answer and the
confidence. The others read feedback or the state, and would take for missing what a suite does not hold."""

Value = Callable[[str, str, float, bool | None], float | None]
"""(action, right answer, confidence, of texts whether both mean the same) → what it is worth; None where the scorer has
no value for it."""


class Answer(msgspec.Struct, frozen=True):
    """One row of a suite as a version answered it. `p` is the model's own probability of its action, `slate` the
    ranking that the row is an item of. Of texts, `right` says whether the action means the same as the answer, and
    `valid` whether it is JSON where the answer is."""

    id: str
    group: str
    slice: str
    answer: str
    action: str
    p: float
    reward: float | None
    slate: str = ""
    right: bool | None = None
    valid: bool | None = None

    @property
    def correct(self) -> bool:
        return self.action == self.answer if self.right is None else self.right


def make_value(scorer: Mapping[str, Any]) -> Value:
    """Of a suite's `scorer`."""
    if "components" not in scorer:
        right, wrong = float(scorer["right"]), float(scorer["wrong"])
        return lambda action, answer, confidence, same: right if _is_same(action, answer, same) else wrong
    reward = RewardFunction([RewardComponent.model_validate(one) for one in scorer["components"]])

    def value(action: str, answer: str, confidence: float, same: bool | None) -> float | None:
        confidence = min(confidence, 1.0)
        facts = Facts(action=action, answer=answer, confidence=confidence)
        if same is not None:
            facts = facts_of_text(action, answer, confidence)
        try:
            return reward(facts)
        except ComponentError:
            return None

    return value


def _is_same(action: str, answer: str, same: bool | None) -> bool:
    return action == answer if same is None else same


def find_unfit_components(scorer: Mapping[str, Any], *, of_texts: bool) -> list[str]:
    """Our own components that cannot value a suite's answers. Rules and components of packages say themselves what they
    read."""
    fit = OF_TEXTS if of_texts else OF_ANSWERS
    return [one["name"] for one in scorer.get("components", ()) if one["name"] in COMPONENTS.own.keys() - fit]


def read_answers(
    predictions: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]], *, slice_by: str, value: Value
) -> list[Answer]:
    """`predictions` of one model, in the order of the suite's `rows`. Raises ValueError where they are not of them."""
    found = []
    for told, row in zip(predictions, rows, strict=True):
        if str(told["id"]) != str(row["id"]):
            raise ValueError(f"a prediction is for row {told['id']!r}, but the suite has {row['id']!r}")
        same = bool(told["correct"]) if "options" not in row else None
        found.append(
            Answer(
                id=str(row["id"]),
                group=str(row.get("group") or row["id"]),
                slice=str(row.get(slice_by) or "") if slice_by else "",
                answer=row["answer"],
                action=told["action"],
                p=told["p_action"],
                reward=value(told["action"], row["answer"], told["p_action"], same),
                slate=(row.get("slate") or {}).get("id", ""),
                right=same,
                valid=told["valid"] if same is not None else None,
            )
        )
    return found


def summarise(
    answers: Sequence[Answer], *, valid_share: float | None, free_rows: int, compared: Compared = PLAIN
) -> dict[str, Any]:
    """Every measure as {mean, low, high, n, clusters}; `reward` and `valid_share` only where they are known.

    error_rate is 1 - accuracy. calibration_error: the mean of |confidence - accuracy| over the rows, by `bins`.
    labels: by right answer, with the share of its rows that were right (recall) and of the rows so answered that were
    (precision). slices: by the suite's field. errors: wrong answers, the surest first. Of rankings also
    `training.evaluation.rankings.MEASURES`. fields: by field that decides (`compared`) of right answers that are JSON
    objects, of texts and of structured choices. Of texts there are no labels, and valid_share is of all answers that
    are to be JSON.
    """
    groups = [one.group for one in answers]
    accuracy = share([one.correct for one in answers], groups)
    bins = calculate_reliability([{"p_action": one.p, "correct": one.correct} for one in answers])
    found: dict[str, Any] = {
        "accuracy": accuracy,
        "error_rate": {
            **accuracy,
            "mean": 1 - accuracy["mean"],
            "low": 1 - accuracy["high"],
            "high": 1 - accuracy["low"],
        },
        "calibration_error": calibration_error(bins),
        "bins": [
            {"confidence": one.confidence, "accuracy": one.accuracy, "low": one.low, "high": one.high, "rows": one.rows}
            for one in bins
        ],
        "labels": _by_label(answers) if not _are_texts(answers) else [],
        "slices": _by_slice(answers),
        "errors": [
            {"id": one.id, "answer": one.answer, "action": one.action, "p": one.p}
            for one in sorted((one for one in answers if not one.correct), key=lambda one: -one.p)[:ERRORS]
        ],
    }
    found |= {name: as_plain(one) for name, one in measure_rankings(rankings_of(answers)).items()}
    rewards = _rewards(answers)
    if rewards is not None:
        found["reward"] = _mean(rewards, groups)
    if (fields := _by_field(answers, compared)) or _are_texts(answers):
        found["fields"] = fields
    if _are_texts(answers):
        if judged := [one for one in answers if one.valid is not None]:
            found["valid_share"] = share([bool(one.valid) for one in judged], [one.group for one in judged])
    elif valid_share is not None and free_rows:
        found["valid_share"] = as_plain(wilson_interval(round(valid_share * free_rows), free_rows))
    return found


def compare(these: Sequence[Answer], others: Sequence[Answer], compared: Compared = PLAIN) -> dict[str, Any]:
    """These minus the others on the same rows, paired and clustered by group: accuracy, reward where both have it, the
    measures of rankings, and accuracy by label, slice and field; of texts valid_share. Raises ValueError for answers to
    other rows."""
    if [one.id for one in these] != [one.id for one in others]:
        raise ValueError("the answers are to different rows")
    groups = [one.group for one in these]
    hits, other_hits = (np.array([one.correct for one in rows], dtype=float) for rows in (these, others))
    found: dict[str, Any] = {"accuracy": as_plain(paired_difference(hits, other_hits, groups), -1.0, 1.0)}
    ranked = compare_rankings(rankings_of(these), rankings_of(others))
    found |= {name: as_plain(one) for name, one in ranked.items()}
    rewards, other_rewards = _rewards(these), _rewards(others)
    if rewards is not None and other_rewards is not None:
        reach = max(np.ptp(rewards), np.ptp(other_rewards), abs(rewards - other_rewards).max())
        found["reward"] = as_plain(paired_difference(rewards, other_rewards, groups), -float(reach), float(reach))
    found |= _compare_fields(these, others, groups, compared)
    for name, key in (("labels", lambda one: one.answer), ("slices", lambda one: one.slice)):
        if name == "labels" and _are_texts(these):
            continue
        places: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(these):
            places[key(one)].append(place)
        if name == "slices" and len(places) < 2:
            continue
        found[name] = {
            label: as_plain(paired_difference(hits[at], other_hits[at], [groups[place] for place in at]), -1.0, 1.0)
            for label, at in sorted(places.items())
        }
    return found


def rankings_of(answers: Sequence[Answer]) -> list[Scored]:
    """Those that the rows are items of, in the order of the rows; of which one is relevant."""
    slates: dict[str, list[Answer]] = defaultdict(list)
    for one in answers:
        if one.slate:
            slates[one.slate].append(one)
    return [
        Scored(
            name,
            items[0].group if items[0].group != items[0].id else name,
            [log_odds(one.p if one.action == YES else 1.0 - one.p) for one in items],
            [one.answer == YES for one in items],
        )
        for name, items in slates.items()
        if {YES, NO} <= {one.answer for one in items}
    ]


def _are_texts(answers: Sequence[Answer]) -> bool:
    return any(one.right is not None for one in answers)


def _compare_fields(
    these: Sequence[Answer], others: Sequence[Answer], groups: Sequence[str], compared: Compared
) -> dict[str, Any]:
    """Of texts valid_share where right answers are JSON; `fields` of texts, and of choices that have some."""

    def differ(mine: Mapping[int, Any], theirs: Mapping[int, Any]) -> dict[str, Any]:
        own, their = (np.array([float(hits[place]) for place in mine]) for hits in (mine, theirs))
        return as_plain(paired_difference(own, their, [groups[place] for place in mine]), -1.0, 1.0)

    valid, other_valid = (
        {place: one.valid for place, one in enumerate(rows) if one.valid is not None} for rows in (these, others)
    )
    fields, other_fields = (
        compare_fields([(one.answer, one.action) for one in rows], compared) for rows in (these, others)
    )
    by_field = {name: differ(hits, other_fields[name]) for name, hits in fields.items()}
    found: dict[str, Any] = {"fields": by_field} if by_field or _are_texts(these) else {}
    return found | ({"valid_share": differ(valid, other_valid)} if valid else {})


def share(hits: Sequence[bool], groups: Sequence[str]) -> dict[str, Any]:
    """A share with its interval, clustered by group."""
    return as_plain(share_interval(hits, groups))


def _mean(values: np.ndarray, groups: Sequence[str]) -> dict[str, Any]:
    return as_plain(clustered_mean(values, groups), float(values.min()), float(values.max()))


def _rewards(answers: Sequence[Answer]) -> np.ndarray | None:
    """(n,), or None where the scorer had no value for some row: a failure is never 0."""
    values = [one.reward for one in answers if one.reward is not None]
    return np.array(values) if len(values) == len(answers) else None


def _by_label(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    of_label: dict[str, list[Answer]] = defaultdict(list)
    chosen: dict[str, list[bool]] = defaultdict(list)
    for one in answers:
        of_label[one.answer].append(one)
        chosen[one.action].append(one.correct)
    return [
        {
            "label": label,
            "rows": len(rows),
            "accuracy": share([one.correct for one in rows], [one.group for one in rows]),
            "chosen": len(chosen[label]),
            "precision": sum(chosen[label]) / len(chosen[label]) if chosen[label] else None,
        }
        for label, rows in sorted(of_label.items())
    ]


def _by_field(answers: Sequence[Answer], compared: Compared) -> list[dict[str, Any]]:
    fields = compare_fields([(one.answer, one.action) for one in answers], compared)
    return [
        {
            "name": name,
            "rows": len(hits),
            "accuracy": share(list(hits.values()), [answers[place].group for place in hits]),
        }
        for name, hits in fields.items()
    ]


def _by_slice(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    of_slice: dict[str, list[Answer]] = defaultdict(list)
    for one in answers:
        of_slice[one.slice].append(one)
    if not 2 <= len(of_slice) <= SLICES:
        return []
    found = []
    for name, rows in sorted(of_slice.items()):
        groups, rewards = [one.group for one in rows], _rewards(rows)
        told = {"name": name, "rows": len(rows), "accuracy": share([one.correct for one in rows], groups)}
        found.append(told | ({"reward": _mean(rewards, groups)} if rewards is not None else {}))
    return found
