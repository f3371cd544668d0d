"""Rows of a run's data files, and what can be said of them without a model. No torch."""
