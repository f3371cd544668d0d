"""Agents and their versions: action spaces, prompts, and the kinds with a set-up of their own."""
