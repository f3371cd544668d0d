"""Agents of other programs act by an OpenAI-compatible `/v1`, which the weights in training answer, and those weights
learn from the very tokens of the answers. training.engine.environments.outside says what such an agent is.
"""
