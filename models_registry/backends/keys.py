"""Which environment variable may be sent to which server, by the operator's word (`RECKONER_BACKEND_KEYS`).

An admin of a workspace names a variable and a server. Without this they could name a secret of the instance or another
workspace's key, and have it sent to a server of their own.
"""

from __future__ import annotations

import re

from django.conf import settings

from models_registry.backends.origins import origin_of
from models_registry.models.serving import KEY_VARIABLE
from workspaces.errors import FieldFault

FIELD = "key_variable"
OWN_PREFIX = "RECKONER_"


def find_key_fault(variable: str, url: str | None) -> FieldFault | None:
    """Why a backend at this URL may not have this variable's key; None where it may, and where it has none. Without a
    URL, only what is wrong with the variable."""
    if not variable:
        return None
    if not re.fullmatch(KEY_VARIABLE, variable):
        return FieldFault(FIELD, "is not …_API_KEY", "a variable such as OPENAI_API_KEY; never the key itself")
    if variable.startswith(OWN_PREFIX):
        return FieldFault(FIELD, f"{variable} is a secret of Reckoner's own", "the variable of this server's key")
    if url is not None and not is_bound(variable, url):
        scheme, host, port = origin_of(url)
        how = f"the operator allows it by RECKONER_BACKEND_KEYS: {variable}={scheme}://{host}:{port}"
        return FieldFault(FIELD, f"the key of {variable} may not be sent to {host}", how)
    return None


def is_bound(variable: str, url: str) -> bool:
    """Whether the operator lets the variable's key be sent to the server of this URL."""
    if variable.startswith(OWN_PREFIX):
        return False
    bound = (one.partition("=") for one in settings.BACKEND_KEYS)
    return any(name == variable and origin_of(origin) == origin_of(url) for name, _, origin in bound)
