"""Scores of versions on held-out rows, tasks, suites and logged decisions, with their intervals and gates."""
