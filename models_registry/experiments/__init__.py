"""Experiments, groups and holdouts: plans, looks, phases, promotion and their log."""
