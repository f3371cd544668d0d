"""Says in one sentence what a run's version reaches on held-out rows, beside the plainest answers: always the most
frequent action, and a classifier of words.

The page of a run, its API and the job of a first model show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training.models import TrainingRun
from workspaces.templatetags.show import percent


def tell_reached(run: TrainingRun) -> str:
    """Of a run that is measured on labelled rows of a choice or a ranking, with the run's dataset, heldout and replay;
    "" of others, and without a measure."""
    found = getattr(run, "evaluation", None)
    if found is None or run.heldout is None or not run.heldout.has_answers:
        return ""
    scores = found.scores.get("trained", {})
    if "ndcg_10" in scores:
        return _tell_ranking(run, scores["ndcg_10"])
    reached = scores.get("accuracy")
    if reached is None:
        return ""
    low, high = percent(reached["low"]), percent(reached["high"])
    says = (
        f"{run.produced_version} is right on {percent(reached['mean'])} [{low}, {high}] of {found.rows:,} held-out rows"
    )
    if (majority := _find_majority(run)) is not None:
        says += f"; always “{majority[0]}” would be right on {percent(majority[1])}"
    if found.plain is not None:
        says += f", a plain classifier of words on {percent(found.plain['accuracy']['mean'])}"
    if majority is not None and reached["mean"] <= majority[1]:
        says += ". It does no better than the most frequent action: it needs more verdicts"
    return f"{says}."


def _tell_ranking(run: TrainingRun, reached: Mapping[str, float]) -> str:
    low, high, plain = f"{reached['low']:.3f}", f"{reached['high']:.3f}", run.evaluation.plain or {}
    says = f"{run.produced_version} reaches an NDCG@10 of {reached['mean']:.3f} [{low}, {high}] on held-out rankings"
    if (words := plain.get("rankings", {}).get("ndcg_10")) is not None:
        says += f", a plain classifier of words {words['words']['mean']:.3f}"
    return f"{says}."


def _find_majority(run: TrainingRun) -> tuple[str, float] | None:
    """What was right most often among the rows that were learnt from, and on what share of the held-out rows it is."""
    assert run.heldout is not None
    learnt = next((one for one in (run.replay, run.dataset) if one is not None and one.has_answers), None)
    actions: Mapping[str, Any] = learnt.statistics.get("actions", {}) if learnt is not None else {}
    if not actions:
        return None
    action = max(actions, key=lambda name: actions[name])
    held = run.heldout.statistics
    if action not in held.get("actions", {}) and held.get("other_actions"):
        return None  # only the most frequent are counted
    return action, held.get("actions", {}).get(action, 0) / run.heldout.rows
