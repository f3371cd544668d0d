"""Models: loading and saving, adapters, prompts as tokens, and the probabilities of a decision's options."""
