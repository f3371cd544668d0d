"""Training runs: plans, checks, states, the engine process, and what people read and write of them."""
