"""Chunked bodies: however the bytes are cut on their way, the body is the same, and its cost is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waitress.buffers import OverflowableBuffer

from project.web.chunked import MANY_CHUNKS, ChunkedBody


def encode(chunks: list[bytes], trailers: bytes = b"") -> bytes:
    framed = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks if chunk)
    return framed + b"0\r\n" + trailers + b"\r\n"


def receive(pieces: list[bytes], most: int = 10_000) -> tuple[ChunkedBody, int]:
    """The body, and how many bytes were left to the next request."""
    body, left = ChunkedBody(OverflowableBuffer(1 << 20), most), 0
    for piece in pieces:
        left += len(piece) - body.received(piece)
    return body, left


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.integers(1, 30),
    st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]),
)
def test_a_body_is_the_same_however_its_bytes_are_cut(chunks: list[bytes], step: int, trailers: bytes) -> None:
    sent = encode(chunks, trailers) + b"GET /next"
    body, left = receive([sent[at : at + step] for at in range(0, len(sent), step)])
    assert body.completed and not body.error and not body.refusal
    assert body.getfile().read() == b"".join(chunks) and len(body) == sum(map(len, chunks))
    assert left == len(b"GET /next")


@pytest.mark.parametrize(
    "sent",
    [
        b"x\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"\r\n", b"1_0\r\n", b"1" * 9 + b"\r\n",
        b"1\n", b"2\r\n[]]\r\n", b"2\r\n[]\n", b"1" * 1100,
        b"0\r\n" + b"A: b\r\n" * 20, b"0\r\n" + b"A" * 1100,
    ],
)  # fmt: skip
def test_what_is_not_framed_as_chunks_is_an_error(sent: bytes) -> None:
    for pieces in ([sent], [sent[at : at + 1] for at in range(len(sent))]):
        body, _ = receive(pieces)
        assert body.error is not None and not body.completed


def test_too_many_bytes_are_refused_at_the_head_of_the_chunk_that_has_them() -> None:
    body, _ = receive([b"10\r\n" + b"a" * 16 + b"\r\n", b"1\r\n"], most=16)
    assert "more than 16 bytes" in body.refusal and len(body) == 16
    assert not receive([encode([b"a" * 16])], most=16)[0].refusal


def test_many_tiny_chunks_are_refused_and_few_are_not() -> None:
    assert receive([encode([b"a"] * (MANY_CHUNKS - 1))])[0].completed
    assert "bytes on average" in receive([encode([b"a"] * (MANY_CHUNKS + 1))])[0].refusal
    assert receive([encode([b"a" * 100] * 3 * MANY_CHUNKS)], most=1_000_000)[0].completed
