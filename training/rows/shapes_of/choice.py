"""Rows of choices: a choice among options, and a structured action that its schema enumerates, as canonical JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decisions.agents.choices import choices_of, option_of
from decisions.agents.prompts import PromptError, make_prompt
from decisions.gateway.exploration import model_probabilities
from training.rows.selection import Rewarded
from training.rows.shapes_of.prompts import prompt_columns

PROBABILITY_DIGITS = 7


def write_rows(decision: Rewarded) -> list[dict[str, Any]] | str:
    """One logged row (training.engine.rows.types). Options are those recorded with the decision, those of its version,
    or those that its schema and state allow. The propensity is null where the policy did not tell it."""
    version = decision.version
    options = choices_of(version, decision.state, decision.options).options
    if not options:
        return "options"
    action = option_of(version, decision.action)
    if action not in options:
        return "action"
    try:
        prompt = make_prompt(version, decision.state, options)
    except PromptError:
        return "prompt"
    thought = _thought(decision, options)
    row = {
        "id": str(decision.id),
        **prompt_columns(prompt),
        "options": list(options),
        "action": action,
        "propensity": decision.propensity,
        **decision.earned,
        **decision.transition,
        **({"probabilities": thought} if thought else {}),
    }
    return [row]


def _thought(decision: Rewarded, options: Sequence[str]) -> list[float] | None:
    """What the model that decided thought of each option, where the whole acting policy was logged."""
    if decision.temperature is None or decision.epsilon is None or not decision.alternatives:
        return None
    told = [entry for entry in decision.alternatives if entry.get("probability") is not None]
    acting = {option_of(decision.version, entry["action"]): float(entry["probability"]) for entry in told}
    if not acting.keys() >= set(options):
        return None
    policy = [acting[option] for option in options]
    found = model_probabilities(policy, temperature=decision.temperature, epsilon=decision.epsilon)
    return [round(p, PROBABILITY_DIGITS) for p in found] if found else None
