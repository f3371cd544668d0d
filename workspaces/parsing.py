"""JSON bodies with limits that hold before anything is parsed (docs/api.md, "Limits")."""

from __future__ import annotations

from typing import IO, Any

import msgspec
from rest_framework.parsers import BaseParser

from workspaces.errors import InvalidInput, LengthRequired, TooLarge

MAX_BODY = 1024 * 1024
MAX_BATCH = 10 * 1024 * 1024
MAX_DEPTH = 32


def deepest(body: bytes) -> int:
    """Nesting depth of JSON by one scan: brackets inside strings do not count."""
    depth = most = 0
    inside = escaped = False
    for byte in body:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            most = max(most, depth)
        elif byte in (0x5D, 0x7D):
            depth -= 1
    return most


def check_body(body: bytes, *, limit: int = MAX_BODY) -> None:
    """Raises TooLarge or InvalidInput. NUL and lone surrogates are refused here: PostgreSQL's jsonb cannot hold
    them, and one such item would fail a whole batch after validation."""
    if len(body) > limit:
        raise TooLarge(f"The body has {len(body)} bytes; at most {limit} are taken.")
    if b"\x00" in body or b"\\u0000" in body:
        raise InvalidInput("The body holds a NUL character, which text cannot hold here.")
    # Depth can only exceed the limit where there are enough brackets: the scan is rarely needed.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and deepest(body) > MAX_DEPTH:
        raise InvalidInput(f"The body nests deeper than {MAX_DEPTH} levels.")
    lowered = body.lower() if b"\\u" in body else b""
    if b"\\ud" in lowered:
        try:
            body_text = msgspec.json.decode(body)
            msgspec.json.encode(body_text).decode("utf-8")
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InvalidInput("The body holds a lone surrogate, which is not text.") from error


def read_body(stream: IO[bytes], request: Any, *, limit: int = MAX_BODY) -> bytes:
    """The checked bytes of a request. A chunked body without a length reads as empty under WSGI: refuse it."""
    if request is not None and request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
        raise LengthRequired("Send a Content-Length; chunked bodies are not taken.")
    body = stream.read(limit + 1)
    check_body(body, limit=limit)
    return body


class StrictJSONParser(BaseParser):
    """Parses JSON by msgspec after the limits. Of duplicate keys the last wins."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        body = read_body(stream, (parser_context or {}).get("request"))
        if not body:
            raise InvalidInput("The body is empty; send JSON.")
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidInput(f"The body is not JSON: {error}") from error


class RawJSONParser(BaseParser):
    """Hands the checked bytes on: the hot path decodes straight into its own types."""

    media_type = "application/json"
    limit = MAX_BODY

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> bytes:
        return read_body(stream, (parser_context or {}).get("request"), limit=self.limit)


class RawBatchParser(RawJSONParser):
    limit = MAX_BATCH
