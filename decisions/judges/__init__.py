"""Judges: whatever scores decisions in people's stead, measured against people.

A judge is the feedback of one metric from the source `llm` or `code` on one agent's decisions. `assessing` says what
its scores are worth beside people's, `drift` whether that has changed.
"""
