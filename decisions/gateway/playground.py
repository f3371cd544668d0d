"""Asks any version about what is recorded, and records no decision: one decision, edited or not, or an episode. Of a
key with a budget every question is a call, whose cost counts.

The playground's pages and endpoints call it. The prompt is made by the decision's own version of the agent, and the
policy by the temperature and ε with which the decision was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Coalesce

from decisions.agents.choices import action_of, choices_of, option_of
from decisions.agents.current import space_of
from decisions.agents.prompts import PromptError, make_prompt
from decisions.errors import Erased
from decisions.gateway.choosing import policy_of
from decisions.gateway.exploration import acting_policy
from decisions.gateway.reserving import estimate_scoring
from decisions.models import ActionSpaceKind, Decision, Episode, Reward
from decisions.rewards.specs import current_reward_spec
from models_registry.backends.asking import Asked, Told, score_versions
from models_registry.calls.key_limits import refuse_over_limits
from models_registry.calls.records import Ending, Opening, close_calls, open_calls
from models_registry.calls.unfinished import answering
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import CallKind, CallState, ModelVersion
from models_registry.versions.services import refuse_no_policy
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, ReckonerError
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7

MOST_STEPS = 50
"""Decisions of an episode that are asked about at once: each is a request to the model's server."""
OTHER_STATES = (
    "Its action differs from the recorded one. The later states follow from the recorded action, and nothing here can"
    " restore the episode's environment, so they would be another policy's."
)


@dataclass(frozen=True, slots=True)
class Edits:
    """What is asked instead of what is recorded; None leaves it as it was."""

    state: Mapping[str, Any] | None = None
    options: tuple[str, ...] | None = None


UNEDITED = Edits()


@dataclass(frozen=True, slots=True)
class Offer:
    """One option. `then`: its recorded probability under the policy that acted, None where that is not known. `now`:
    the same under the version asked. `thought`: what that version itself gives it. `taken`: it was done; `picked`: the
    version gives it the most."""

    action: Any
    then: float | None
    now: float
    thought: float
    taken: bool
    picked: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A decision as it was, and as the version would make it. `reward` in [0, 1] of what was done, None while unknown.
    `agrees`: the version's pick is what was done. `named`: its server named an option and gave no probabilities."""

    decision: Decision
    version: ModelVersion
    state: Mapping[str, Any]
    edited: bool
    offers: tuple[Offer, ...]
    pick: Any
    reward: float | None
    agrees: bool
    named: bool


@dataclass(frozen=True, slots=True)
class Step:
    """`number` in the episode, from 1 on. `failure`: why it could not be asked; there is no comparison then."""

    number: int
    decision: Decision
    comparison: Comparison | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Rerun:
    """`ended`: why it stopped before the episode's end; "" where it did not."""

    steps: tuple[Step, ...]
    decisions: int
    ended: str


def ask_again(*, by: Actor, decision: Decision, version: ModelVersion, edits: Edits = UNEDITED) -> Comparison:
    """Raises Erased, AgentNotAllowed, BudgetSpent, BudgetReserved, NotAPolicy, InvalidInput with every fault,
    BackendRefused, BackendUnavailable."""
    if decision.is_erased:
        raise Erased.of([decision.id])
    refuse_over_limits(by=by, agent=decision.agent.slug, now=database_now())
    refuse_no_policy(version)
    setup = decision.agent_version
    state = decision.state if edits.state is None else edits.state
    options = _find_options(decision, state, edits)
    try:
        prompt = make_prompt(setup, state, options)
    except PromptError as error:
        fault = FieldFault(error.field, str(error), "a value")
        raise InvalidInput("The version cannot be asked about this.", faults=[fault]) from error
    assert setup.max_prompt_tokens is not None  # it chooses
    told = _ask_within_budget(by, Asked(version, prompt, options, setup.max_prompt_tokens))
    thought = told.score.probabilities
    if thought is None:
        failure = told.score.error or "it did not answer"
        if told.score.refused:
            raise BackendRefused(f"{version} cannot be asked about this: {failure}")
        raise BackendUnavailable(f"{version} could not answer: {failure}")
    policy = _acting_policy(decision, thought)
    taken, before = option_of(setup, decision.action), _recorded_policy(decision)
    first = max(range(len(thought)), key=thought.__getitem__)
    offers = tuple(
        Offer(
            action=action_of(setup, option),
            then=before.get(option),
            now=policy[place],
            thought=thought[place],
            taken=option == taken,
            picked=place == first,
        )
        for place, option in enumerate(options)
    )
    return Comparison(
        decision=decision,
        version=version,
        state=state,
        edited=edits != UNEDITED,
        offers=offers,
        pick=offers[first].action,
        reward=_find_reward(decision),
        agrees=options[first] == taken,
        named=told.score.picked,
    )


def _acting_policy(decision: Decision, thought: Sequence[float]) -> tuple[float, ...]:
    """With the decision's own temperature and ε. Where its agent's budget bound it, those of the agent's version: the
    budget bounds them anew."""
    setup = decision.agent_version
    if setup.exploration_budget is not None and decision.temperature is None and decision.epsilon:
        return policy_of(setup, thought)
    return acting_policy(
        thought,
        temperature=setup.temperature if decision.temperature is None else decision.temperature,
        epsilon=setup.epsilon if decision.epsilon is None else decision.epsilon,
        budget=setup.exploration_budget,
    )


def _ask_within_budget(by: Actor, asked: Asked) -> Told:
    """Raises BudgetSpent, BudgetReserved."""
    if by.key is None or by.key.spend_a_day is None:
        [told] = score_versions([asked])
        return told
    call_id = uuid7()
    opening = Opening(call_id, asked.version, estimate_scoring(asked.version, asked.prompt, asked.options))
    open_calls(by=by, kind=CallKind.PLAYGROUND, openings=[opening], now=database_now())
    with answering([call_id]):
        [told] = score_versions([asked])
    endpoint, score = told.endpoint or told.last, told.score
    known: dict[str, Any] = {
        "cost": told.cost,
        "backend": endpoint.backend if endpoint is not None else None,
        "tokens_in": score.tokens_in,
        "tokens_out": score.tokens_out,
        "fallback": " ".join(told.failures) if score.probabilities is not None else "",
    }
    if score.probabilities is None:
        ending = Ending(call_id, CallState.FAILED, error=score.error or "It did not answer.", **known)
    else:
        ending = Ending(call_id, CallState.ANSWERED, served=asked.version.id, **known)
    close_calls(by=by, endings=[ending], now=database_now())
    return told


def _find_options(decision: Decision, state: Mapping[str, Any], edits: Edits) -> tuple[str, ...]:
    """Raises InvalidInput."""
    setup = decision.agent_version
    faults: list[FieldFault] = []
    if edits.state is not None and (schema := space_of(setup).state) is not None:
        faults += schema.faults(edits.state)
    if edits.options is not None:
        if setup.action_space != ActionSpaceKind.CHOICE:
            faults.append(FieldFault("options", "are given for a structured action", "none: its schema defines them"))
        elif len(edits.options) < 2 or len(set(edits.options)) != len(edits.options):
            faults.append(FieldFault("options", "are too few, or one is repeated", "at least two, each once"))
    choices = choices_of(setup, state, decision.options if edits.options is None else edits.options)
    if not choices.options and not faults:
        reason = f"the action {choices.reason or 'has no options'}"
        faults.append(FieldFault("decision", reason, "a choice among options"))
    if faults:
        raise InvalidInput("The version cannot be asked about this.", faults=faults)
    assert choices.options
    return choices.options


def _recorded_policy(decision: Decision) -> dict[str, float]:
    """Probability by option, as far as it was recorded."""
    found: dict[str, float] = {}
    for entry in decision.alternatives or []:
        option = option_of(decision.agent_version, entry.get("action")) if isinstance(entry, Mapping) else None
        if option is not None and isinstance(entry.get("probability"), int | float):
            found[option] = float(entry["probability"])
    taken = option_of(decision.agent_version, decision.action)
    if taken is not None and decision.propensity is not None:
        found.setdefault(taken, decision.propensity)
    return found


def _find_reward(decision: Decision) -> float | None:
    """By the agent's current spec."""
    spec = current_reward_spec(decision.agent)
    newest = Reward.objects.filter(decision=decision.id, spec=spec).order_by("-version")
    value: float | None = newest.values_list("value", flat=True).first()
    return value


def list_steps(episode: Episode) -> list[Decision]:
    """The episode's decisions in order, one query."""
    found = (
        Decision.objects.filter(workspace_id=episode.workspace_id, episode=episode)
        .select_related("agent", "agent_version", "model_version__registered_model")
        .defer("content_hash", "token_ids", "logprobs")
    )
    return list(found.order_by(Coalesce("step_number", 0), "id"))


def ask_episode(*, by: Actor, episode: Episode, version: ModelVersion, start: int = 1) -> Rerun:
    """Asks about the episode's decisions one by one, from the `start`-th on, each in its recorded state. After the
    first one where the version's pick is not what was done, it stops: later states are not those that it would meet.

    Raises AgentNotAllowed, BudgetSpent, InvalidInput, NotAPolicy.
    """
    refuse_over_limits(by=by, agent=episode.agent.slug, now=database_now())
    refuse_no_policy(version)
    decisions = list_steps(episode)
    if not 1 <= start <= max(1, len(decisions)):
        raise InvalidInput(
            "The version cannot be asked about the episode from this step on.",
            faults=[FieldFault("step", f"{start} is out of range", f"1 to {max(1, len(decisions))}")],
        )
    steps: list[Step] = []
    for number, decision in enumerate(decisions[start - 1 :], start=start):
        if len(steps) == MOST_STEPS:
            return Rerun(tuple(steps), len(decisions), f"At most {MOST_STEPS} are asked about at once.")
        try:
            comparison = ask_again(by=by, decision=decision, version=version)
        except ReckonerError as error:
            why = " ".join([error.message, *(fault.reason + "." for fault in error.faults)])
            steps.append(Step(number, decision, None, why))
            return Rerun(tuple(steps), len(decisions), "It could not be asked about this decision.")
        steps.append(Step(number, decision, comparison))
        if not comparison.agrees:
            last = number == len(decisions)
            return Rerun(tuple(steps), len(decisions), "" if last else OTHER_STATES)
    return Rerun(tuple(steps), len(decisions), "")


def as_edited_options(lines: Sequence[str]) -> tuple[str, ...]:
    """Of a form: one option a line, without empty ones."""
    return tuple(line.strip() for line in lines if line.strip())
