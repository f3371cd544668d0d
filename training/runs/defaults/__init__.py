"""Default values of runs: chosen by what the workspace has, named presets, and the recipes that the loops share."""
