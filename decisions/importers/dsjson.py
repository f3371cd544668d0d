"""Vowpal Wabbit's DSJSON, as Azure Personalizer logs it: one event a line, with the probability of its action.

`a` lists the actions, the shown one first, counted from 1, or from 0 where one of them is 0; `p` their probabilities
in that order; `c` the context: shared features, and under `_multi` those of each action. `_label_cost` is minus the
reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json_files
from decisions.importers.records import (
    LONGEST_NAME,
    PROBABILITY_ROUNDING,
    Found,
    Imported,
    Reading,
    Record,
    Refused,
    as_probability,
    canonical,
    list_of,
    make_decision,
    make_feedback,
    number_of,
    object_of,
    read_each,
)

SAME_DROP = 1e-6
SLOTS = ("_outcomes", "_slots")


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    sampling = Sampling()
    return read_each(read_json_files(files, reading), lambda record: read_event(record, reading, sampling))


@dataclass(slots=True)
class Sampling:
    """The probability with which the log dropped an event (`pdrop`), by the first event. It changes no estimate where
    it is the same for all."""

    dropped: float | None = None

    def check(self, event: dict[str, Any]) -> None:
        """Raises Refused."""
        dropped = number_of(event.get("pdrop", 0.0))
        if dropped is None or not 0 <= dropped < 1:
            raise Refused("pdrop", f"{event.get('pdrop')!r} must be from 0 to below 1")
        if self.dropped is None:
            self.dropped = dropped
        elif abs(dropped - self.dropped) > SAME_DROP:
            raise Refused("pdrop", f"is {dropped}, but {self.dropped} in the first event: events have no weights here")


def read_event(record: Record, reading: Reading, sampling: Sampling) -> list[Found]:
    """Raises Refused or msgspec.ValidationError."""
    event = object_of(record.value, "the line")
    if "c" not in event and "RewardValue" in event:
        raise Refused("RewardValue", "a reward without its event; join them before exporting, as Personalizer does")
    context = object_of(event.get("c"), "c")
    if any(name in event or name in context for name in SLOTS):
        raise Refused("_slots", "an event with several slots; only events with one action are imported")
    actions = [object_of(action, "c._multi") for action in list_of(context.get("_multi"), "c._multi")]
    if not actions:
        raise Refused("c._multi", "lists no actions")
    names = _names(actions)
    sampling.check(event)
    first = _first_number(event)
    chosen = _chosen(event, len(actions), first)
    order, probabilities = _ranked(event, len(actions), first, chosen)
    moment = reading.moment(event.get("Timestamp"), "Timestamp")
    # Its id identifies an event; without one, its content does, except the outcome, which may come later.
    key = event.get("EventId") or canonical({"c": context, "a": event.get("a"), "p": event.get("p")})
    decision_id = reading.mint(moment, str(key))
    propensity = as_probability(number_of(event.get("_label_probability")))
    if propensity is None and probabilities:
        propensity = as_probability(probabilities[0])
    if propensity is not None and not 0 < propensity <= 1:
        raise Refused("_label_probability", f"{propensity} must be above 0, up to 1, as the action was chosen")
    if probabilities and propensity is not None and abs(probabilities[0] - propensity) > 1e-4:
        raise Refused("p", f"gives {probabilities[0]} to the shown action, but _label_probability is {propensity}")
    model = (event.get("VWState") or {}).get("m") if isinstance(event.get("VWState"), dict) else None
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(None),
            "state": {
                "context": {name: value for name, value in context.items() if name != "_multi"},
                "actions": dict(zip(names, actions, strict=True)),
            },
            "options": names,
            "action": names[chosen],
            "propensity": propensity,
            "alternatives": [
                {"action": names[action], "probability": probability}
                for action, probability in list(zip(order, probabilities, strict=True))[1:]
            ]
            or None,
            "policy_name": reading.policy_for(model if model != "N/A" else None),
            "observed_at": moment,
            "external_id": str(event["EventId"])[:LONGEST_NAME] if event.get("EventId") else None,
        }
    )
    feedback = []
    cost = number_of(event.get("_label_cost"))
    if "_label_cost" in event and cost is None:
        raise Refused("_label_cost", "is not a number")
    if cost is not None and not event.get("_skipLearn"):
        feedback.append(
            make_feedback(
                reading,
                record.place,
                metric="reward",
                value=0.0 if cost == 0 else -cost,
                observed_at=moment,
                key="_label_cost",
                decision_id=decision_id,
            )
        )
    return [Imported(record.place, decision, (), tuple(feedback), record.size)]


def _first_number(event: dict[str, Any]) -> int:
    """What the first action of `_multi` is called in `a` and `_label_Action`."""
    return 0 if 0 in list_of(event.get("a"), "a") or event.get("_label_Action") == 0 else 1


def _chosen(event: dict[str, Any], count: int, first: int) -> int:
    """The action shown, counted from 0, by whichever of the three places says it; they must agree."""
    ranked = list_of(event.get("a"), "a")
    said = {
        "_labelIndex": event.get("_labelIndex"),
        "_label_Action": _from_zero(event.get("_label_Action"), first),
        "a": _from_zero(ranked[0], first) if ranked else None,
    }
    given = {name: value for name, value in said.items() if value is not None}
    if not given:
        raise Refused("_labelIndex", "no field names the shown action")
    if len(set(given.values())) > 1:
        raise Refused("_labelIndex", f"{', '.join(given)} name different actions")
    name, chosen = next(iter(given.items()))
    if not isinstance(chosen, int) or isinstance(chosen, bool) or not 0 <= chosen < count:
        raise Refused(name, f"names none of the {count} actions in c._multi")
    return chosen


def _from_zero(number: Any, first: int) -> Any:
    return number - first if isinstance(number, int) and not isinstance(number, bool) else number


def _ranked(event: dict[str, Any], count: int, first: int, chosen: int) -> tuple[list[int], list[float]]:
    """Actions (from 0) with their probabilities, the shown one first; both empty where the event has no `p`."""
    probabilities = [number_of(value) for value in list_of(event.get("p"), "p")]
    if not probabilities:
        return [], []
    order = [_from_zero(action, first) for action in list_of(event.get("a"), "a")]
    if not order and len(probabilities) == count:
        raise Refused("a", "is missing, so it is not known which action has which probability")
    if len(order) != len(probabilities) or not set(order) <= set(range(count)) or len(set(order)) != len(order):
        raise Refused("a", "does not name one action for each probability in p")
    good = [value for value in probabilities if value is not None and 0 <= value <= 1 + PROBABILITY_ROUNDING]
    if len(good) != len(probabilities) or abs(sum(good) - 1) > 0.01:
        raise Refused("p", "is not a distribution: its numbers must be in [0, 1] and sum to 1")
    assert order[0] == chosen
    return order, good


def _names(actions: Sequence[dict[str, Any]]) -> list[str]:
    """A name for each action: its `_tag`, its `id` as Personalizer writes it, or its number from 1."""
    names = []
    for number, action in enumerate(actions, start=1):
        inner = action.get("i")
        name = action.get("_tag") or (inner.get("id") if isinstance(inner, dict) else None) or str(number)
        names.append(str(name)[:LONGEST_NAME])
    return names if len(set(names)) == len(names) else [str(number) for number in range(1, len(actions) + 1)]
