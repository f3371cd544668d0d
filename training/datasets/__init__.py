"""Datasets frozen from decisions or labels: jobs, previews, other formats."""
