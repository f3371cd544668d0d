"""Files of the office. They lie in memory: a name is never a path of the machine."""

from __future__ import annotations

import re

from training.engine.environments.office.tables import ToolError, one_cell
from training.engine.environments.office.world import World

NAME = re.compile(r"[\w-][\w .-]{0,99}")
MOST_FILES = 100
MOST_TEXT = 10_000
"""Characters of a text file."""


def list_files(world: World) -> str:
    return ", ".join(world.files)


def read_file(world: World, file: str) -> str:
    """A text file, onto the desk."""
    content = find_file(world, file)
    if file.endswith(".xlsx"):
        raise ToolError(f"{file} is a sheet")
    world.file = file
    return world.lay(one_cell("text", content.decode(errors="replace"))).as_text()


def write_file(world: World, file: str, text: str) -> str:
    """Writes a text file, or replaces it."""
    if file.endswith(".xlsx"):
        raise ToolError(f"{file} is a sheet")
    if len(text) > MOST_TEXT:
        raise ToolError(f"more than {MOST_TEXT} characters")
    store_file(world, file, text.encode())
    return "saved"


def find_file(world: World, file: str) -> bytes:
    if world.open_to_me(file) not in world.files:
        raise ToolError(f"no file {file}")
    return world.files[file]


def store_file(world: World, file: str, content: bytes) -> None:
    """Also makes it the file at hand. Raises ToolError for a bad or locked name, or when there are too many files."""
    if not NAME.fullmatch(world.open_to_me(file)):
        raise ToolError("a bad name of a file")
    if file not in world.files and len(world.files) >= MOST_FILES:
        raise ToolError("too many files")
    world.files[file] = content
    world.file = file
