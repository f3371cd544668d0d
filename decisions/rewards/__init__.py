"""Rewards from feedback: components, specs, their calculation, and matured units for experiments."""
