"""Agents and their versions: what an agent may do, what it is asked, and the kinds that bring their own set-up."""
