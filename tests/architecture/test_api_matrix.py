"""Every endpoint of /api/v1 × every caller × someone else's object: who may do what, and refusals change nothing.

The table in `api_calls.py` is the whole answer. A URL name that it does not hold fails the first test: a new endpoint
says there which scope it needs and how it is called.
"""

from __future__ import annotations

# The descriptions of the API, without data.
OPEN = {f"api-{what}{of}" for what in ("schema", "docs") for of in ("", "-gateway", "-notes-app")}
