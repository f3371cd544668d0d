"""Training runs: plans, defaults, the machine's limits, states, the engine process and what it reports."""
