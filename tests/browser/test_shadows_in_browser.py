"""Pages of shadows in a real browser, at every width, light and dark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models import Shadow
from tests.browser.accessibility import look_at
from tools.factories import ShadowAnswerFactory, ShadowFactory, ShadowPointFactory
from tools.scenes import TOPICS, Scene

REFUSAL = "The 120 decisions are worth 61 of the new policy's own; at least 200 are needed."


@pytest.fixture
def shadow(scene: Scene) -> Any:
    """A day of a candidate that is better, and could not answer some decisions."""
    one = ShadowFactory(agent=scene.agent, version=scene.version, answered=1240, failed=3, looks=2)
    now = timezone.now()
    for number in range(20):
        answered = 60 * (number + 1)
        reach = 2.2 / answered**0.5
        estimate = 0.08 + 0.05 * (-1) ** number / (number + 1)
        ShadowPointFactory(
            shadow=one, at=now - dt.timedelta(hours=20 - number), answered=answered, rewarded=answered - 40,
            agreement=0.7 + 0.1 / (number + 1), agreement_low=0.7 - reach / 2, agreement_high=min(1.0, 0.8 + reach / 2),
            estimate=estimate, low=estimate - reach, high=estimate + reach, logged=0.55,
            effective_sample_size=answered / 2, refusals=[REFUSAL] if number < 4 else [],
            look={9: 1, 18: 2}.get(number),
        )  # fmt: skip
    for decision in scene.decisions[:8]:
        place = TOPICS.index(decision.action)
        pick = (place + 1) % len(TOPICS)
        thought = [0.02] * len(TOPICS)
        thought[place], thought[pick] = 0.2, 0.68
        ShadowAnswerFactory(
            shadow=one, decision=decision, probabilities=thought, place=place, pick=TOPICS[pick], agrees=False
        )
    ShadowAnswerFactory(
        shadow=one, decision=scene.decisions[9], probabilities=None, place=None, pick=None, agrees=None,
        error="vllm does not answer: the connection was refused.",
    )  # fmt: skip
    ShadowFactory(
        agent=scene.agent, version=scene.version, state="stopped", ended_at=now, end_reason="the prompt changed"
    )
    assert Shadow.objects.count() == 2
    return one


def test_pages_of_shadows_fit_and_are_accessible(tab: Any, owner: Any, scene: Scene, shadow: Any, log_in: Any) -> None:
    slug = scene.agent.workspace.slug
    log_in(tab, owner)
    found: list[str] = []
    for name, path in (
        ("shadows", reverse("pages:shadows", args=[slug])),
        ("shadow-form", reverse("pages:shadow-start", args=[slug])),
        ("shadow", reverse("pages:shadow", args=[slug, shadow.id])),
    ):
        tab.goto(path)
        found += look_at(tab, name)
    assert found == []
