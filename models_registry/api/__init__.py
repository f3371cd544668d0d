"""The registry under /api/v1: requests parsed and answers shaped."""
