"""The job that carries a run from queued to a registered version, and the version's model card."""
