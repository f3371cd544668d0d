"""Reading a run's data files. No torch."""
