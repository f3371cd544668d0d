"""What a run will need of the machine, and whether it fits."""
