"""Everything that writes what clients send: decisions, feedback, steps, episodes, and what items' ends say."""
