"""Chats in OpenAI's protocol, answered by an agent's model and recorded as decisions.

`requests` reads them, `responses` those of the Responses API, in which `item_references` puts items of earlier answers;
`answering` routes and records; `recalling` finds greedy answers that were given before; `written` gathers what a model
writes; `faults` has the shape of OpenAI's errors.
`project.gateway` serves them.
"""
