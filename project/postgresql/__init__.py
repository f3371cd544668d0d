"""Django's own database backend for PostgreSQL, with one method replaced: see `base`."""
