"""Loops that the product runs by itself: lists of stages for one runner, and what the demo and rehearsals share."""
