"""Runs the parts of a program one after the other, each of which returns what the client has read."""

import asyncio
import inspect
import json
import traceback
from collections.abc import Callable
from typing import Any


def run(*parts: Callable[[], Any]) -> None:
    """Prints a line for each part: its name, what it returned, and why it failed where it did."""
    with asyncio.Runner() as runner:
        for part in parts:
            value, fault = None, None
            try:
                result = part()
                value = runner.run(result) if inspect.iscoroutine(result) else result
            except Exception:  # noqa: BLE001 - the other parts still run
                fault = traceback.format_exc()[-3000:]
            print("part:", json.dumps([part.__name__, value, fault]), flush=True)  # noqa: T201 - what the test reads
