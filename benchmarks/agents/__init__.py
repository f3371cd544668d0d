"""Agents of the notes app that learn from an outside policy's decisions; `python -m benchmarks.agents` runs them."""
