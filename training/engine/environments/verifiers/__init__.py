"""Tasksets of verifiers (its API `verifiers.v1`) as environments: their tasks, their rewards, one reply a task.

`host` is run by an interpreter that has verifiers; nothing else of Reckoner is there. `taskset` asks it over its
standard input and output, `environment` makes an environment of it. No torch.
"""
