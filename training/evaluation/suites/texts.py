"""Suites of texts: what a version wrote, compared with texts that are right, as a whole and field by field. No
database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from decisions.rewards.components import read_json
from training.engine.spec.compared import PLAIN, Compared

FIELDS = 50
"""At most so many fields of the right answers are counted, those of the most rows."""
Hits = Mapping[str, Mapping[int, bool]]
"""By field: the place of each answer whose right text has it, and whether the version wrote the same value there."""


def compare_fields(answers: Sequence[tuple[str, str]], compared: Compared = PLAIN) -> Hits:
    """Of (right text, what was written): the fields that decide of right texts that are JSON objects. An answer that is
    no JSON object has none of them right."""
    found: dict[str, dict[int, bool]] = {}
    for place, (right, written) in enumerate(answers):
        meant, said = compared.find_decided(read_json(right)), compared.find_decided(read_json(written))
        if isinstance(meant, dict):
            for name, value in meant.items():
                same = isinstance(said, dict) and name in said and said[name] == value
                found.setdefault(name, {})[place] = same
    most = Counter({name: len(hits) for name, hits in found.items()}).most_common(FIELDS)
    return {name: found[name] for name in sorted(name for name, _ in most)}


def as_suite_row(text: Mapping[str, Any]) -> dict[str, Any]:
    """A row of text as suites ask it: its completion is the answer."""
    return {**text, "answer": text["completion"].strip()}
