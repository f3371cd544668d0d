"""Worlds that answer to actions, and what acts in them. No torch, no Django.

`protocol` says what an environment is, `agents` what an agent is, `registry` finds an environment by its name.
"""
