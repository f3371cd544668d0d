"""The modules that a taskset is found and called by."""
