"""The file that a run keeps its training episodes in. No torch."""

EPISODES_FILE = "training_episodes.jsonl"
"""A line for each: `step`, the update counted from 1, beside the fields of an episode."""
