"""The rows of datasets: selecting, shaping, splitting, writing and reading them."""
