"""Pages of runs and datasets."""
