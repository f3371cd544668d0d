"""The training loop that every method shares: steps, batches that fit into memory, checkpoints."""
