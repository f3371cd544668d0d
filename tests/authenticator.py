"""An authenticator app, as RFC 6238 has it: SHA-1, six digits, 30 seconds."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import time


def code_of(secret: str, steps: int = 0) -> str:
    """The code of now, or of `steps` times 30 seconds later. Waits for the next 30 seconds where these end in a second,
    or the code might be another one when it arrives."""
    if (left := 30 - time.time() % 30) < 1:
        time.sleep(left)
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    digest = hmac.new(base64.b32decode(secret), counter, hashlib.sha1).digest()
    start = digest[-1] & 0xF
    return f"{(struct.unpack('>I', digest[start : start + 4])[0] & 0x7FFFFFFF) % 10**6:06d}"
