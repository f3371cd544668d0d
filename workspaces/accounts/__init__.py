"""A person's own account: log-in, password, sessions, and what is logged of them."""
