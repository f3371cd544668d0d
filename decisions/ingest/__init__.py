"""Writes what clients send: decisions, feedback, steps, episodes, and the feedback from items' ends."""
