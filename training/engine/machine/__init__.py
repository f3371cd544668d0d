"""What this machine has, on which device a run works, and the processes that share it."""
