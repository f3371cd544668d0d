"""A judge that scored an agent's decisions, and people who judged some of them."""

from __future__ import annotations

import datetime as dt
import random
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from decisions.models import Decision, Feedback
from workspaces.storage.ids import uuid7


@pytest.fixture
def score(agent: Any) -> Callable[..., None]:
    """`score(200, labels=120, wrong=0.05, days=1)`: so many decisions that a judge scored so many days ago. Half are
    right; people say so of the first `labels`, the judge errs in the share `wrong`."""

    def make(
        count: int,
        *,
        labels: int = 0,
        wrong: float = 0.05,
        days: float = 1.0,
        metric: str = "helpful",
        source: str = "llm",
        people: str = "verdict",
        seed: int = 4,
        scale: float = 1.0,
        of: Any = None,
    ) -> None:
        rng, whose = random.Random(seed), of or agent
        moment = timezone.now() - dt.timedelta(days=days)
        version = whose.versions.first()
        decisions, said = [], []
        for number in range(count):
            right = rng.random() < 0.5
            judged = right != (rng.random() < wrong)
            decision = Decision(
                id=uuid7(),
                workspace=whose.workspace,
                agent=whose,
                agent_version=version,
                unit=f"{seed}-{number // 2}",
                state={"text": f"note {number}"},
                options=["finance", "travel", "health"],
                action=rng.choice(["finance", "travel", "health"]),
                policy_name=rng.choice(["ours", "theirs"]),
                observed_at=moment,
                recorded_at=moment,
                content_hash=secrets.token_bytes(32),
            )
            decisions.append(decision)
            said.append(feedback(decision, metric, source, scale * judged, moment))
            if number < labels:
                word: Any = right if people != "verdict" else "confirmed" if right else "corrected"
                said.append(feedback(decision, people, "human", word, moment))
        Decision.objects.bulk_create(decisions)
        Feedback.objects.bulk_create(said)

    return make


def feedback(decision: Any, metric: str, source: str, value: Any, moment: Any) -> Feedback:
    return Feedback(
        workspace_id=decision.workspace_id,
        decision=decision,
        metric=metric,
        source=source,
        value=value,
        observed_at=moment,
        recorded_at=moment,
        content_hash=secrets.token_bytes(32),
    )
