"""Finds the fenced blocks of code in a text. PURE.

As CommonMark 0.31 has them, but with any indentation: models put blocks into lists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")
_OPENING = re.compile(r"( *)(`{3,}|~{3,})(.*)")
PYTHON = frozenset({"python", "py", "python3", "py3"})


@dataclass(frozen=True, slots=True)
class Block:
    """`language` is the first word behind the fence, in small letters; empty where there is none."""

    language: str
    code: str


def split_fenced(text: str) -> tuple[list[Block], str]:
    """The fenced blocks in their order, and the text without them. A fence that is never closed reaches to the end."""
    blocks: list[Block] = []
    prose: list[str] = []
    inside: list[str] | None = None
    indent, fence, language = 0, "", ""
    for line in _LINE_END.split(text):
        bare = line.strip()
        if inside is not None:
            if len(bare) >= len(fence) and not bare.strip(fence[0]):
                blocks.append(Block(language, "\n".join([*inside, ""])))
                inside = None
            else:
                inside.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
        elif (opening := _OPENING.fullmatch(line)) and not (opening[2][0] == "`" and "`" in opening[3]):
            indent, fence, inside = len(opening[1]), opening[2], []
            language = (opening[3].split() or [""])[0].lower().strip("{.}")
        else:
            prose.append(line)
    if inside is not None:
        blocks.append(Block(language, "\n".join([*inside, ""])))
    return blocks, "\n".join(prose)
