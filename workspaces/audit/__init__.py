"""The audit of a workspace: a page, filters, and CSV."""
