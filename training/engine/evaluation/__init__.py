"""Scores on held-out rows before and after training, and a look at a few rows during it."""
