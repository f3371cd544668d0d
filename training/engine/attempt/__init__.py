"""One attempt at a run: its folder, events, checkpoints, stop flag, and what it does when memory runs out."""
