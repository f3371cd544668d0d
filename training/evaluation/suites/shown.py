"""A suite's scores as pages show them: lines of measures, the calibration chart, tables by label and slice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.artifacts.opening import artifact_path
from models_registry.models import ModelVersion
from training.evaluation.measures import MARGIN, find_reach, tone_of
from training.evaluation.predictions import Bin, Seen, draw_reliability
from training.evaluation.rankings import TITLES
from training.models import EvaluationSuite, SuiteScore
from training.rows.parts import ROWS_FILE

MEASURES = (
    ("accuracy", "Accuracy", "share"),
    ("reward", "Reward of its own actions", "number"),
    ("valid_share", "Valid free generations", "share"),
    *TITLES,
)
LONGEST_PROMPT = 400
MOST_SUITES = 20


@dataclass(frozen=True, slots=True)
class Line:
    """One measure of a version, with its paired difference to another where there is one."""

    name: str
    title: str
    kind: str
    value: Mapping[str, Any]
    other: Mapping[str, Any] | None
    difference: Mapping[str, Any] | None
    reach: float
    tone: str

    @property
    def left(self) -> float:
        return -self.reach


@dataclass(frozen=True, slots=True)
class Part:
    """One label, slice or field: its rows, its share right, and the paired difference to another version."""

    name: str
    rows: int
    accuracy: Mapping[str, Any]
    precision: float | None
    difference: Mapping[str, Any] | None
    reach: float
    tone: str

    @property
    def left(self) -> float:
        return -self.reach


def list_measures(
    score: SuiteScore, other: SuiteScore | None = None, differences: Mapping[str, Any] | None = None
) -> list[Line]:
    """The measures that the score has, in the order of MEASURES."""
    lines = []
    for name, title, kind in MEASURES:
        value = score.scores.get(name)
        if value is None:
            continue
        difference = (differences or {}).get(name)
        before = other.scores.get(name) if other is not None else None
        lines.append(Line(name, title, kind, value, before, difference, find_reach(difference), tone_of(difference)))
    return lines


def list_suites(version: ModelVersion) -> list[tuple[SuiteScore, Line]]:
    """Each suite that the version is scored on, with its accuracy over the version that training started from."""
    scores = version.suite_scores.select_related("suite").order_by("suite__name")[:MOST_SUITES]
    return [(score, list_measures(score, None, score.differences)[0]) for score in scores]


def list_parts(score: SuiteScore, kind: str, differences: Mapping[str, Any] | None = None) -> list[Part]:
    """`kind`: labels, slices or fields. All differences stand on one axis."""
    told = (differences or {}).get(kind, {})
    reach = find_reach(*told.values()) if told else MARGIN
    return [
        Part(
            one["label"] if kind == "labels" else one["name"],
            one["rows"],
            one["accuracy"],
            one.get("precision"),
            found := told.get(one["label"] if kind == "labels" else one["name"]),
            reach,
            tone_of(found),
        )
        for one in score.scores.get(kind, ())
    ]


def draw_calibration(scores: Sequence[SuiteScore]) -> dict[str, Any]:
    """The figure of `training.evaluation.predictions`, a series for each version."""
    reliability = {
        str(score.version): [
            Bin(one["confidence"], one["accuracy"], one["low"], one["high"], one["rows"])
            for one in score.scores["bins"]
        ]
        for score in scores
    }
    error = {str(score.version): score.scores["calibration_error"] for score in scores}
    return draw_reliability(Seen(scores[0].rows, reliability, error, [], []))


def draw_versions(scores: Sequence[SuiteScore]) -> dict[str, Any] | None:
    """The figure of accuracy over version numbers on one suite; None below two points."""
    points = {score.version.number: score.scores["accuracy"] for score in scores}
    places = sorted(points)
    if len(places) < 2:
        return None
    return {
        "title": "Accuracy, %",
        "height": 180,
        "x": {"label": "version", "whole": True, "values": places},
        "y": {"decimals": 1, "unit": "%"},
        "series": [
            {
                "label": "accuracy",
                "kind": "dots",
                **{
                    key: [points[place][end] * 100 for place in places]
                    for key, end in (("values", "mean"), ("low", "low"), ("high", "high"))
                },
            }
        ],
    }


def list_errors(score: SuiteScore) -> list[dict[str, Any]]:
    """The kept wrong answers with the start of their prompts, of chats the end, from the suite's rows; "" where those
    are gone."""
    prompts = _read_prompts(score.suite, {one["id"] for one in score.scores["errors"]})
    return [one | {"prompt": prompts.get(one["id"], "")} for one in score.scores["errors"]]


def _read_prompts(suite: EvaluationSuite, wanted: set[str]) -> dict[str, str]:
    path = artifact_path(suite.dataset.artifact.digest) / ROWS_FILE
    if not wanted or not path.is_file():
        return {}
    found = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if str(row["id"]) in wanted:
                prompt = row["prompt"]  # of a chat its end, where the question stands
                found[str(row["id"])] = prompt[-LONGEST_PROMPT:] if row.get("messages") else prompt[:LONGEST_PROMPT]
    return found
