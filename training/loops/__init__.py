"""Loops that the product runs on itself (the demo, a rehearsal): lists of stages for one runner."""
