"""Decisions made by the gateway: the model's answer, the exploration, and the row stored before the answer is sent."""
