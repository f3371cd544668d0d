"""JSON bodies with limits that hold before anything is parsed (docs/api.md, "Limits")."""

from __future__ import annotations

import re
import zlib
from typing import IO, Any

import msgspec
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from workspaces.errors import InvalidInput, TooLarge, UnsupportedEncoding

MAX_BODY = 1024 * 1024
MAX_BATCH = 10 * 1024 * 1024
MAX_DEPTH = 32
MAX_RATIO = 20
MAX_INTEGER = 2**63 - 1
# An escaped NUL, but not the text "\u0000" behind an escaped backslash.
ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
ESCAPED = re.compile(rb"\\.", re.DOTALL)
# The shape of a body: its brackets and quotes, a 0 for each digit, a comma for what parts two numbers.
SHAPE = bytes.maketrans(b"{}0123456789:-.+", b"[]0000000000,,,,")
SHAPELESS = bytes(set(range(256)) - set(b'[]{}"0123456789,:-.+'))
DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
LONG_NUMBER = b"0" * 19
HOLDS_NUL = "The body holds a NUL character, which text cannot hold here."


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


def shape_of(body: bytes) -> bytes:
    """What is left of JSON for the two checks below: a quarter of a batch, for one scan of it."""
    return (ESCAPED.sub(b"", body) if b"\\" in body else body).translate(SHAPE, SHAPELESS)


def nests_deeper(body: bytes, levels: int, shape: bytes | None = None) -> bool:
    """Whether `deepest` is over `levels`, without a step of Python for each byte.

    Strings vanish, then pairs of brackets from the inside out, one level in each round. What is left after `levels`
    rounds is too deep or not JSON, and is looked at byte by byte.
    """
    bare = (shape or shape_of(body)).translate(None, b"0,").replace(b'""', b"")
    if b'"' in bare:  # a string with brackets in it
        bare = b"".join(bare.split(b'"')[::2])
    for _ in range(levels):
        bare = bare.replace(b"[]", b"")
        if not bare:
            return False
    return deepest(body) > levels


def _has_long_number(body: bytes, shape: bytes) -> bool:
    """Whether 19 digits stand in a row. In the shape they may come from both sides of a letter or a space."""
    return LONG_NUMBER in shape and LONG_NUMBER in body.translate(DIGITS)


def check_body(body: bytes, *, limit: int = MAX_BODY) -> None:
    """Raises TooLarge or InvalidInput. NUL and lone surrogates are refused here: PostgreSQL's jsonb cannot hold
    them, and one such item would fail a whole batch after validation."""
    if len(body) > limit:
        raise TooLarge(f"The body has {len(body)} bytes; at most {limit} are taken.")
    if b"\x00" in body:
        raise InvalidInput(HOLDS_NUL)
    # One byte is found many times faster than two: most bodies escape nothing.
    if b"\\" in body and b"\\u" in body:
        _check_escapes(body)
    shape = shape_of(body)
    if nests_deeper(body, MAX_DEPTH, shape):
        raise InvalidInput(f"The body nests deeper than {MAX_DEPTH} levels.")
    if _has_long_number(body, shape):
        _check_integers(body)


def _check_escapes(body: bytes) -> None:
    if b"\\u0000" in body and ESCAPED_NUL.search(body):
        raise InvalidInput(HOLDS_NUL)
    if b"\\ud" in body.lower():
        try:
            msgspec.json.encode(msgspec.json.decode(body)).decode("utf-8")
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InvalidInput("The body holds a lone surrogate, which is not text.") from error


def _check_integers(body: bytes) -> None:
    """Other languages' clients read integers of 64 bits: a longer one would come back as another number."""
    try:
        pending = [msgspec.json.decode(body)]
    except (msgspec.DecodeError, UnicodeError):
        return  # not JSON: whoever decodes it next says so
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise InvalidInput(f"The integer {value} does not fit into 64 bits; send it as text.")


def inflate(body: bytes, *, limit: int) -> bytes:
    """A gzipped body. Raises TooLarge, and InvalidInput for what is not gzip or grows more than 20 times: no more than
    that is ever inflated."""
    most = min(limit, MAX_RATIO * len(body))
    inflater = zlib.decompressobj(wbits=31)
    try:
        inflated = inflater.decompress(body, most + 1)
    except zlib.error as error:
        raise InvalidInput("The body is not gzip, as its Content-Encoding says.") from error
    if len(inflated) > limit:
        raise TooLarge(f"The body inflates to more than {limit} bytes.")
    if len(inflated) > most:
        raise InvalidInput(f"The body inflates to more than {MAX_RATIO} times its size; send it as it is.")
    if not inflater.eof or inflater.unused_data:
        raise InvalidInput("The gzipped body is cut off, or something follows it.")
    return inflated


def read_body(stream: IO[bytes], *, limit: int = MAX_BODY, context: dict[str, Any] | None = None) -> bytes:
    """The checked bytes of a request; `context` is the parser's, and is emptied. Raises as the checks do, and
    UnsupportedEncoding."""
    body = stream.read(limit + 1)
    request = (context or {}).get("request")
    encoding = request.headers.get("Content-Encoding", "").strip().lower() if request is not None else ""
    if encoding == "gzip":
        if len(body) <= limit:
            body = inflate(body, limit=limit)
    elif encoding not in {"", "identity"}:
        raise UnsupportedEncoding(f"A Content-Encoding of {encoding[:40]!r} is not taken; send gzip, or none.")
    check_body(body, limit=limit)
    if context is not None:
        # The request refers to itself by it: megabytes would wait for the collector of cycles.
        context.clear()
    return body


class StrictJSONParser(BaseParser):
    """Parses JSON by msgspec after the limits. Of duplicate keys the last wins."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        body = read_body(stream, context=parser_context)
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

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return read_body(stream, limit=self.limit, context=parser_context)


class RawBatchParser(RawJSONParser):
    limit = MAX_BATCH


def raw_body(request: Request) -> bytes:
    """What a raw parser read. Raises InvalidInput where there was nothing to read: no parser is asked then."""
    if not isinstance(request.data, bytes):
        raise InvalidInput("The body is empty; send JSON.")
    return request.data


def text_parameter(request: Request, name: str) -> str | None:
    """One text of the query string; None where it is missing or empty. It holds no NUL (workspaces.form_values)."""
    return request.query_params.get(name) or None
