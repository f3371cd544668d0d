"""Plain data between the box of the tests and the box of the candidate: one JSON document a line.

Only data can pass, no object with behaviour: whatever arrives is a new None, bool, int, float, complex, str, bytes,
list, tuple, set, frozenset, dict, range or iterator over these. So a result cannot say that it equals everything.
"""

from __future__ import annotations

import json
import os
from typing import Any

MOST_BYTES = 8 * 1024 * 1024  # of one line


class NotPlain(TypeError):
    """Something that is no plain data."""


class Channel:
    """Takes standard input and output for itself; afterwards a program reads nothing there, and prints to the other."""

    def __init__(self) -> None:
        self._read = os.fdopen(os.dup(0), "rb")
        self._write = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def send(self, message: dict[str, Any]) -> None:
        self._write.write(json.dumps(message).encode() + b"\n")
        self._write.flush()

    def receive(self) -> Any:
        """Raises EOFError when the other side is gone or says too much, ValueError for what is no JSON."""
        line = self._read.readline(MOST_BYTES)
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line)


def encode(value: Any) -> Any:
    """JSON that `decode` turns back; raises NotPlain."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"int": hex(value)}  # decimal digits are limited in number, and slow
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
    for name, kind in (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)):
        if isinstance(value, kind):
            return {name: [encode(one) for one in value]}
    if hasattr(value, "__next__"):
        return {"iterator": [encode(one) for one in value]}
    raise NotPlain("a " + type(value).__name__ + " is not plain data")


def decode(value: Any) -> Any:
    """Raises NotPlain for what `encode` does not write."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise NotPlain("not plain data")
    ((name, content),) = value.items()
    if name == "int":
        return int(content, 16)
    if name == "float":
        return float.fromhex(content)
    if name == "complex":
        return complex(*(float.fromhex(part) for part in content))
    if name == "bytes":
        return bytes.fromhex(content)
    if name == "range":
        return range(*content)
    if name == "dict":
        return {decode(key): decode(one) for key, one in content}
    kinds: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "iterator": iter}
    if name not in kinds:
        raise NotPlain("not plain data")
    return kinds[name]([decode(one) for one in content])
