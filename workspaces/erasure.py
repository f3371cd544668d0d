"""The lowest floor's part of a person's erasure: answers kept for repeated requests.

They are bytes of many kinds, so one person's cannot be found among them. Those with ids only stay; every other one
becomes a refusal. Dropping it instead would let a repeated request store again what it holds.
"""

from __future__ import annotations

import json

from django.db import connection
from django.utils import timezone

from workspaces.http.api_errors import envelope
from workspaces.models import Workspace

GONE = 410
MESSAGE = "This request was answered before. Its answer was removed when a person's data were erased."
# encode(…, 'escape') turns any bytes into text; what it escapes is in none of the answers that stay.
_ERASE = r"""
UPDATE workspaces_keptanswer SET status = %(gone)s, content_type = 'application/json', body = %(body)s
 WHERE workspace_id = %(workspace)s AND created_at <= %(now)s AND status <> %(gone)s AND body <> ''
   AND encode(body, 'escape') !~
       '^\{("kept":\[(\{"index":\d+,"id":"[-0-9a-f]{36}","duplicate":(true|false)\},?)*\],"errors":\[\])?\}$'
"""


def erase_answers(*, workspace: Workspace) -> int:
    """How many kept answers became refusals: they may quote anybody of the workspace. Call inside a transaction."""
    body = json.dumps(envelope("erased", MESSAGE, [], None)).encode()
    with connection.cursor() as cursor:
        cursor.execute(_ERASE, {"gone": GONE, "body": body, "workspace": workspace.id, "now": timezone.now()})
        return int(cursor.rowcount)
