"""What was made from what, and what an erasure therefore marks or removes."""
