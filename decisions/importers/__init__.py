"""Decisions that were made elsewhere, from files: one module a format, a table of them, and the run that writes.

`formats.py` is the table, `running.py` surveys and writes, `manage.py import_decisions` is the way in. A format's
module turns files into the ingest schemas and says of everything else where it stood and why it was refused; it touches
no database.
"""
