"""Imports decisions made elsewhere from files.

`formats.py` is the table of formats, one module each; `running.py` surveys the files and writes; `manage.py
import_decisions` is the command. A format's module turns files into the ingest schemas, or into refusals with place and
reason. It does not use the database.
"""
