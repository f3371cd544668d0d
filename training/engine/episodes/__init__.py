"""Learning by acting in environments: rollouts by the weights in training, credit for each step, and GRPO on them.

training.engine.environments holds the worlds, without torch; here a model acts in them.
"""
