"""Decisions made here: the model's answer, the exploration around it, and the row that is stored before it leaves."""
