"""Loops that the product runs by itself (the demo, a rehearsal): lists of stages for one runner."""
