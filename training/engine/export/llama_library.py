"""llama.cpp as a library: the one inside xllamacpp's wheel, whose C functions ctypes calls. Found without an import."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

INSTALL = 'pip install "reckoner-ledger[export]"'
SUFFIXES = (".so", ".dylib", ".pyd")


class LibraryMissing(RuntimeError):
    """xllamacpp isn't installed, or its wheel lacks a function."""


def library_path() -> Path | None:
    """The shared library of xllamacpp's wheel; None where it isn't installed."""
    found = find_spec("xllamacpp")
    if found is None or found.origin is None:
        return None
    files = sorted(Path(found.origin).parent.glob("xllamacpp*"))
    return next((file for file in files if file.suffix in SUFFIXES), None)


@cache
def llama_library() -> ctypes.CDLL:
    """Raises LibraryMissing."""
    path = library_path()
    if path is None:
        raise LibraryMissing(f"llama.cpp's library is not installed: {INSTALL}")
    return ctypes.CDLL(str(path))


def library_fault(*functions: str) -> str | None:
    """What keeps these functions from being called, and what to install; None where they can be."""
    try:
        library = llama_library()
    except (LibraryMissing, OSError) as error:
        return str(error)
    lacking = [name for name in functions if not hasattr(library, name)]
    if lacking:
        return (
            f"the library of the installed xllamacpp lacks {', '.join(lacking)}: {INSTALL} installs one that has them"
        )
    return None
