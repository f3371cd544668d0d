"""Previews a dataset of people's labels: how many rows, where they come from, and what would be left out.

Like `training.datasets.preview` it reads the newest LOOK decisions of an agent; the rules are those of
`training.rows.labels`.
"""

from __future__ import annotations

import uuid
from collections import Counter

from django.db import connection

from decisions.models import ActionSpaceKind, Agent
from decisions.models.tombstones import NOT_ERASED
from training.datasets.lacking import LACKS_FIELD, lack_parameters
from training.datasets.preview import EXAMPLES, LOOK, MOST_ACTIONS, Preview, by_count
from training.rows.labels import JUDGED, SUGGESTED, TOLD, LabelQuestion, Told, find_answer
from training.rows.selection import MATCHES, learnt_from
from training.rows.shapes_of.text import as_completion

LONGEST_ACTION = 200
_PREVIEW = f"""
SELECT d.{NOT_ERASED}, NOT {LACKS_FIELD}, %(version)s::uuid IS NULL OR d.agent_version_id = %(version)s,
       {MATCHES} AND (NOT %(with_propensity)s OR d.propensity IS NOT NULL),
       %(unused_at)s::timestamptz IS NULL OR NOT {learnt_from()}, {TOLD}, {SUGGESTED}
  FROM (SELECT * FROM decisions_decision WHERE agent_id = %(agent)s ORDER BY id DESC LIMIT %(look)s) d {JUDGED}
 ORDER BY d.id DESC
"""  # noqa: S608 - names of ours


def preview_labels(agent: Agent, question: LabelQuestion) -> Preview:
    """Its `actions` are the right ones. Two statements."""
    versions = {version.id: version for version in agent.versions.all()}
    actions, verdicts, sources, left_out = (Counter[str]() for _ in range(4))
    examples: list[tuple[uuid.UUID, str]] = []
    looked_at = rows = 0
    with connection.cursor() as cursor:
        plain = [one for one in versions.values() if one.action_space != ActionSpaceKind.RANKING]
        cursor.execute(_PREVIEW, {**question.parameters(agent), **lack_parameters(plain), "look": LOOK})
        for kept, whole, asked, matches, unused, *columns in cursor.fetchall():
            looked_at += 1
            told = Told.read(tuple(columns))
            version = versions[told.agent_version]
            answer = find_answer(told, kind=question.kind, version=version, negatives=question.negatives)
            reasons = (("erased", kept), ("version", asked), ("filtered", matches))
            first = next((why for why, holds in reasons if not holds), None)
            lacking = "used" if not unused else None if whole else "prompt"
            why = first or (answer if isinstance(answer, str) else lacking)
            if why is not None or isinstance(answer, str):
                left_out[str(why)] += 1
                continue
            rows += 1
            right = as_completion(answer.right, answer.words)[:LONGEST_ACTION]
            actions[right] += 1
            verdicts[told.verdict or "no verdict"] += 1
            sources[answer.source] += 1
            if len(examples) < EXAMPLES:
                examples.append((told.decision, right))
    return Preview(
        rows=rows,
        looked_at=looked_at,
        actions=by_count(actions.items())[:MOST_ACTIONS],
        verdicts=by_count(verdicts.items()),
        sources=by_count(sources.items()),
        left_out=by_count(left_out.items()),
        examples=tuple(decision for decision, _ in examples),
        answers=tuple(right for _, right in examples),
    )
