"""The text of an answer while its tokens come."""

import pytest

from training.engine.serving.growing_text import GrowingText


def decode(tokens):
    """Tokens are bytes."""
    return bytes(tokens).decode(errors="replace")


def grow(text: str | bytes, stops=()) -> tuple[list[str], GrowingText]:
    growing = GrowingText(decode, stops)
    pieces = []
    for token in text.encode() if isinstance(text, str) else text:
        growing.add(token)
        if growing.stopped:
            break
        pieces.append(growing.take(ended=False))
    growing.end()
    pieces.append(growing.take(ended=True))
    return pieces, growing


def test_pieces_are_whole_characters_and_together_the_text():
    pieces, growing = grow("ünï 😀!")
    assert "".join(pieces) == growing.text == "ünï 😀!"
    assert [piece for piece in pieces if piece] == ["ü", "n", "ï", " ", "😀", "!"]


def test_bytes_that_are_no_character_come_at_the_end():
    pieces, growing = grow("a😀".encode()[:-1])
    assert pieces == ["a", "", "", "", "�"] and growing.text == "a�"


@pytest.mark.parametrize(
    ("text", "stops", "left"),
    [
        ("one STOP two", ["STOP"], "one "),
        ("one STO two", ["STOP"], "one STO two"),
        ("one ST", ["STOP"], "one ST"),
        ("ababac", ["abac", "zz"], "ab"),
        ("STOP", ["STOP"], ""),
        ("xüy", ["üy", "y"], "x"),
    ],
)
def test_no_piece_holds_what_becomes_a_stop_string(text, stops, left):
    pieces, growing = grow(text, stops)
    assert growing.text == "".join(pieces) == left
    assert growing.stopped == (left != text)
