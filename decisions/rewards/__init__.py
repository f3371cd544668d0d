"""Rewards from facts: components, specs, their calculation, and the units that mature for experiments."""
