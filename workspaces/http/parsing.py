"""JSON bodies with limits that hold before anything is parsed (docs/api.md, "Limits")."""

from __future__ import annotations

import re
import zlib
from typing import IO, Any

import msgspec
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from workspaces.errors import InvalidInput, TooLarge, UnsupportedEncoding
from workspaces.http.list_items import BLANK, FaultyList
from workspaces.storage.storable import MAX_DEPTH, MAX_INTEGER

MAX_BODY = 1024 * 1024
MAX_BATCH = 10 * 1024 * 1024
MAX_RATIO = 20
MAX_CONTAINERS = 500_000
"""Objects and lists in a body. What costs time and memory is their number: a list of a million empty ones is 3 MB."""
MAX_VALUES = 1_500_000
# The shape of a body: its brackets and quotes, a 0 for each digit, a comma for what parts two numbers.
SHAPE = bytes.maketrans(b"{}0123456789:-.+", b"[]0000000000,,,,")
SHAPELESS = bytes(set(range(256)) - set(b'[]{}"0123456789,:-.+'))
NO_COMMA = bytes(set(range(256)) - set(b',"'))
DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
LONG_NUMBER = b"0" * 19
LONG_INTEGER = re.compile(rb"(?<![0-9.eE])(?<![eE][+-])-?[0-9]{19,}(?![0-9.eE])")
STRING = re.compile(rb'"[^"]*"')
SURROGATE = rb"\\u[dD][%s][0-9a-fA-F]{2}"
PAIR = SURROGATE % b"89abAB" + SURROGATE % b"c-fC-F"
LONE_SURROGATE = re.compile(SURROGATE % b"89a-fA-F")
# Possessive: each byte is looked at once, and nothing is kept of the million pairs of a large body.
PAIRED = re.compile(rb"(?:[^\\]++|" + PAIR + rb"|(?!" + SURROGATE % b"89a-fA-F" + rb")\\)*+")
HOLDS_NUL = "The body contains a NUL character, which is not allowed."


def check_body(body: bytes, *, limit: int = MAX_BODY, containers: int = MAX_CONTAINERS, values: bool = True) -> None:
    """Raises TooLarge or InvalidInput, within a second of CPU for 10 MB of anything: no byte or value costs a step of
    Python. NUL and lone surrogates are refused here: PostgreSQL's jsonb cannot hold them, and one such item would fail
    a whole batch after validation. Not `values`: whoever decodes it refuses such items alone."""
    if len(body) > limit:
        raise TooLarge(f"The body has {len(body)} bytes; at most {limit} are allowed.")
    plain = unescaped = body
    # One byte is found many times faster than two: most bodies escape nothing.
    if b"\\" in body:
        unescaped = body.replace(b"\\\\", b"")
        plain = unescaped.replace(b'\\"', b"")
    shape = plain.translate(SHAPE, SHAPELESS)
    brackets = _brackets_of(shape)
    if brackets.count(b"[") > containers:
        raise TooLarge(f"The body has more than {containers} objects and lists.")
    if plain.count(b",") > MAX_VALUES and _outside_strings(plain.translate(None, NO_COMMA)).count(b",") > MAX_VALUES:
        raise TooLarge(f"The body has more than {MAX_VALUES} values.")
    # The sizes come first: what is too large is not looked at item by item.
    if b"\x00" in body:
        raise InvalidInput(HOLDS_NUL)
    if values and b"\\u" in unescaped:
        _check_escapes(unescaped)
    if _nests_deeper(brackets, MAX_DEPTH):
        raise InvalidInput(f"The body is nested deeper than {MAX_DEPTH} levels.")
    # In the shape, digits may come from both sides of a letter or a space.
    if values and LONG_NUMBER in shape and LONG_NUMBER in plain.translate(DIGITS):
        _check_integers(plain)


def nests_deeper(body: bytes, levels: int) -> bool:
    """Whether JSON nests deeper than so many levels."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return _nests_deeper(_brackets_of(plain.translate(SHAPE, SHAPELESS)), levels)


def _brackets_of(shape: bytes) -> bytes:
    """The brackets outside of strings, as [ and ]."""
    return _outside_strings(shape.translate(None, b"0,"))


def _outside_strings(text: bytes) -> bytes:
    rest = text.replace(b'""', b"")
    return b"".join(rest.split(b'"')[::2]) if b'"' in rest else rest


def _nests_deeper(brackets: bytes, levels: int) -> bool:
    """Pairs of brackets vanish from the inside out, one level in each round.

    A pair that is left after `levels` rounds has as many below it. Where brackets are left and none is a pair, the body
    is not JSON, and whoever decodes it says so.
    """
    if b"[" * (levels + 1) in brackets:
        return True
    for _ in range(levels):
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            return False
        brackets = inner
    return b"[]" in brackets


def _check_escapes(plain: bytes) -> None:
    """`plain`: the body without escaped backslashes."""
    if b"\\u0000" in plain:
        raise InvalidInput(HOLDS_NUL)
    if LONE_SURROGATE.search(plain) and not PAIRED.fullmatch(plain):
        raise InvalidInput("The body contains a lone surrogate, which is not valid text.")


def _check_integers(plain: bytes) -> None:
    """Other languages' clients read integers of 64 bits: a longer one would come back as another number."""
    for match in LONG_INTEGER.finditer(STRING.sub(b'""', plain)):
        text = match.group()
        # Python reads no number of thousands of digits, and none with 20 of them fits.
        if len(text) > 20 or not -MAX_INTEGER - 1 <= int(text) <= MAX_INTEGER:
            raise InvalidInput(f"The integer {text[:40].decode()} does not fit into 64 bits; send it as text.")


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
        raise TooLarge(f"The decompressed body has more than {limit} bytes.")
    if len(inflated) > most:
        raise InvalidInput(f"The decompressed body is more than {MAX_RATIO} times larger. Send it uncompressed.")
    if not inflater.eof or inflater.unused_data:
        raise InvalidInput("The gzip body is incomplete or has extra data at its end.")
    return inflated


def read_body(
    stream: IO[bytes], *, limit: int = MAX_BODY, context: dict[str, Any] | None = None, lists: bool = False
) -> bytes:
    """The checked bytes of a request; `context` is the parser's, and is emptied. With `lists`, those of a list in which
    something is faulty are a FaultyList. Raises as the checks do, and UnsupportedEncoding."""
    body = stream.read(limit + 1)
    request = (context or {}).get("request")
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower() if request is not None else ""
    if encoding == "gzip":
        if len(body) <= limit:
            body = inflate(body, limit=limit)
    elif encoding not in {"", "identity"}:
        raise UnsupportedEncoding(f"A Content-Encoding of {encoding[:40]!r} is not supported. Send gzip or none.")
    try:
        check_body(body, limit=limit)
    except InvalidInput:
        if not lists or body.lstrip(BLANK)[:1] != b"[":
            raise
        body = FaultyList(body)
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
    """Hands on a list in which something is faulty, too: the decoder refuses that item."""

    limit = MAX_BATCH

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return read_body(stream, limit=self.limit, context=parser_context, lists=True)


def raw_body(request: Request) -> bytes:
    """What a raw parser read. Raises InvalidInput where there was nothing to read: no parser is asked then."""
    if not isinstance(request.data, bytes):
        raise InvalidInput("The body is empty; send JSON.")
    return request.data


def text_parameter(request: Request, name: str) -> str | None:
    """One text of the query string; None where it is missing or empty. It holds no NUL
    (workspaces.http.form_values)."""
    return request.query_params.get(name) or None
