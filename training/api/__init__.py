"""The training floor under /api/v1: requests parsed and answers shaped."""
