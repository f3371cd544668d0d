"""What all pages have in common: the guard, confirmations, secrets that are shown once."""
