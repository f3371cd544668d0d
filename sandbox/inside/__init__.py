"""Programs that `sandbox/programs.py` puts into its two boxes: they run there, and nothing here imports them.

They are read by whatever Python the machine has, so they use no syntax newer than 3.9.
"""
