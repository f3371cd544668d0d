"""Rankings: the model says of each item by itself whether it is right for the first place, and an order is drawn.

An item's score is the log-odds of its yes, and the first place is drawn from their softmax after temperature and
exploration; each later place from what is left (Plackett and Luce, `decisions.gateway.exploration`). The propensity is
that of the places that are shown, in their order; the alternatives are the items with their probability of the first
place, from which datasets learn.
"""

from __future__ import annotations

import random

from decisions.agents.current import CurrentAgent
from decisions.agents.items import NO, YES, ask_items
from decisions.gateway.choosing import offered_options, other_policy, policy_of
from decisions.gateway.exploration import draw_order, order_probability
from decisions.gateway.questions import Act, Reply, Scoring, Wanted
from decisions.ingest.schemas import DecideItem
from workspaces.errors import FieldFault


def want(current: CurrentAgent, item: DecideItem, path: str, faults: list[FieldFault]) -> Wanted | None:
    """A `questions.Want`."""
    options = offered_options(current.version, item, path, faults)
    if options is None:
        return None
    if item.places is not None and item.places > len(options):
        faults.append(
            FieldFault(
                f"{path}places", f"{item.places} is more than the {len(options)} options", f"1 to {len(options)}"
            )
        )
    prompts = ask_items(current.version, item.state, options)
    if prompts is None:
        expected = "a prompt template with {{ options }}, or with a list of the state whose items are the options"
        faults.append(FieldFault(f"{path}options", "look the same in the agent's prompt", expected))
        return None
    asks = Scoring(tuple(prompts[option] for option in options), (YES, NO), each_item=True)
    return Wanted(options, asks, places=item.places or len(options))


def act(current: CurrentAgent, reply: Reply, rng: random.Random) -> Act:
    """A `questions.Do`. The propensity is None where it is too small for a number. The confidence is the model's own
    probability that the first item belongs first."""
    version, wanted = current.version, reply.question.wanted
    assert reply.probabilities is not None
    policy = policy_of(version, reply.probabilities)
    order = draw_order(policy, wanted.places, rng)
    other = other_policy(reply)
    columns = {
        "options": list(wanted.options),
        "alternatives": [
            {"action": option, "probability": probability}
            for option, probability in zip(wanted.options, policy, strict=True)
        ],
        "other_arm_propensity": order_probability(other, order.places) if other and order.propensity else None,
    }
    confidence = None if reply.picked else min(1.0, reply.probabilities[order.places[0]])
    action = [wanted.options[place] for place in order.places]
    return Act(action, policy, order.propensity or None, confidence, columns)
