"""What all pages have in common: the guard, confirmations, polled parts, secrets that are shown once."""
