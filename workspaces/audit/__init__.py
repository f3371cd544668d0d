"""The audit of a workspace: who did what, to read, to filter and to take away as CSV."""
