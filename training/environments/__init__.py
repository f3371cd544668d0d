"""Environments as people see them: what is installed, the tasks drawn there, and the episodes of runs.

The engine acts in them (`training.engine.environments`); a page, the API and commands name them and take no code.
"""
