"""Values another action beside the one that was done, where a reward can be calculated from the action itself.

Figures of shadows of texts ask (`training.shadows.figures`): nobody judged what the candidate wrote, and nothing came
of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from django.utils import timezone

from decisions.models import RewardSpec
from decisions.rewards.calculate import plan_of
from decisions.rewards.components import Component, Facts
from decisions.rewards.components.rules import component_of
from decisions.rewards.gathering import gather_facts
from training.rows.shapes_of.text import as_completion

CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class BothValued:
    """Raw rewards by the same components, with a value on both sides. `other` is None where the other action has none
    of its own."""

    done: float
    other: float | None


def list_needs(spec: RewardSpec) -> list[str]:
    """Components of the spec that need more than an action and its state, such as a verdict or what came of it. With
    any of them, the reward of an action that was not done is not known."""
    found = [component_of(told) for told in spec.components]
    return [one.name for one in found if not _reads_the_action_alone(one)]


def _reads_the_action_alone(one: Component) -> bool:
    """Metrics other than the verdict are an app's own measures, in whose place the component has a formula."""
    of_one = one.scope == "decision" and not one.measured and "verdict" not in one.metrics
    return of_one and one.reads == frozenset({"content"})


def value_both(spec: RewardSpec, actions: Mapping[uuid.UUID, Any]) -> dict[uuid.UUID, BothValued]:
    """By decision, what was done and the action given here, both by the action alone: what was observed of the one
    is not known of the other. Decisions that are gone, or whose own action has no value, are left out."""
    plan, found = plan_of(spec), dict[uuid.UUID, BothValued]()
    ids = list(actions)
    for start in range(0, len(ids), CHUNK):
        gathered = gather_facts(
            workspace_id=spec.workspace_id,
            agent_id=spec.agent_id,
            groups=plan.reads,
            moments=dict.fromkeys(ids[start : start + CHUNK]),
            now=timezone.now(),
        )
        for one in gathered:
            done = plan.value(_keep_action(one.facts, one.facts.action, one.facts.completion))
            other = plan.value(_keep_action(one.facts, actions[one.decision]))
            if done.raw is not None:
                alike = done.components.keys() == other.components.keys()
                found[one.decision] = BothValued(done.raw, other.raw if alike else None)
    return found


def _keep_action(facts: Facts, action: Any, words: str | None = None) -> Facts:
    says = action if isinstance(action, Mapping) else {}
    return msgspec.structs.replace(
        facts,
        measures={},
        action=action,
        completion=as_completion(action, words),
        confidence=None,
        reasoning=says.get("reasoning"),
        alternatives=None,
    )
