"""Rankings: the model says of each item by itself whether it is right for the first place, and an order is drawn.

An item's score is the log-odds of its yes, and the first place is drawn from their softmax after temperature and
exploration; each later place from what is left (Plackett and Luce, `decisions.gateway.exploration`). The propensity is
that of the places that are shown, in their order; the alternatives are the items with their probability of the first
place, from which datasets learn.
"""

from __future__ import annotations

import random

from decisions.agents.current import CurrentAgent
from decisions.agents.items import ask_items
from decisions.agents.prompts import PromptError
from decisions.gateway.choosing import bounded_columns, offered_options, other_policy, policy_of
from decisions.gateway.exploration import draw_order, order_probability
from decisions.gateway.requests import DrawnAction, ModelReply, Rendering, ScoringPrompt, fault_of
from decisions.ingest.schemas import DecideItem
from workspaces.errors import FieldFault


def render(current: CurrentAgent, item: DecideItem) -> Rendering:
    """A `ways.Render`."""
    options, faults = offered_options(current.version, item)
    if options is None:
        return Rendering(None, faults)
    if item.places is not None and item.places > len(options):
        reason = f"{item.places} is more than the {len(options)} options"
        faults.append(FieldFault("places", reason, f"1 to {len(options)}"))
    try:
        prompts = ask_items(current.version, item.state, options)
    except PromptError as error:
        return Rendering(None, [*faults, fault_of(error)])
    if prompts is None:
        expected = "a prompt template with {{ options }}, or with a list of the state whose items are the options"
        return Rendering(None, [*faults, FieldFault("options", "look the same in the agent's prompt", expected)])
    asked = tuple(prompts[option] for option in options)
    return Rendering(ScoringPrompt(options, asked, places=item.places or len(options)), faults)


def draw(reply: ModelReply, rng: random.Random) -> DrawnAction:
    """A `ways.Draw`. The propensity is None where it is too small for a number. The confidence is the model's own
    probability that the first item belongs first."""
    version, prompt = reply.request.current.version, reply.request.prompt
    assert isinstance(prompt, ScoringPrompt)
    assert reply.probabilities is not None
    policy = policy_of(version, reply.probabilities)
    order = draw_order(policy, prompt.places, rng)
    other = other_policy(reply)
    columns = {
        "options": list(prompt.options),
        "alternatives": [
            {"action": option, "probability": probability}
            for option, probability in zip(prompt.options, policy, strict=True)
        ],
        "other_arm_propensity": order_probability(other, order.places) if other and order.propensity else None,
        **bounded_columns(version, reply.probabilities),
    }
    confidence = None if reply.picked else min(1.0, reply.probabilities[order.places[0]])
    action = [prompt.options[place] for place in order.places]
    return DrawnAction(reply, action, policy, order.propensity or None, confidence, columns)
