"""Agents that act in environments until the episode ends: `POST /api/v1/agents/<slug>/solve`.

`problems` reads what was asked, `acting` is one episode under way, `services` advances many of them together through
the gateway's `decide`, `recalling` gives greedy ones again, `quality` measures them over time. No torch: environments
need none, and the model server answers.
"""
