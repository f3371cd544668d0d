"""Who acts, and in which workspace: actors, API keys, the audit's writer, the second factor."""
