"""Texts in plain English: what an export and its version are asked where a version has no held-out rows."""

from __future__ import annotations

from pydoc_data.topics import topics

ORDINARY = 40


def find_ordinary_texts() -> list[str]:
    """Paragraphs of 80 to 160 characters, evenly over the reference that Python has with it (`help()`)."""
    paragraphs = (" ".join(text.split()) for topic in sorted(topics) for text in topics[topic].split("\n\n"))
    found = [text for text in paragraphs if 80 <= len(text) <= 160 and text[0].isupper() and text.endswith(".")]
    return found[:: len(found) // ORDINARY][:ORDINARY]
