"""The lowest floor under /api/v1: keys, and the URLs of people and audit."""
