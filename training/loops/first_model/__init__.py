"""The first model of an agent, from people's verdicts on its own decisions: one job, two runs."""
