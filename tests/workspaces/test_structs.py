"""Types of bodies are ready before threads use them."""

from __future__ import annotations

import gc
import warnings

import msgspec
import pytest

from workspaces.http.structs import prepare_structs


def test_every_loaded_type_is_made_ready() -> None:
    assert prepare_structs() > 20

    class Late(msgspec.Struct):
        of: Missing  # type: ignore[name-defined]  # noqa: F821 - only who makes the type ready finds out

    try:
        with pytest.raises(NameError, match="Missing"):
            prepare_structs()
    finally:
        del Late
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # of what other tests left open
            gc.collect()
    prepare_structs()
