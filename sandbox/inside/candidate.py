"""In the candidate's box: defines the candidate's program, then calls its functions as the other box asks.

Nothing here is trusted by anybody: whatever the program does to this process, it can only answer or not.
"""

from __future__ import annotations

import builtins
from typing import Any

from channel import Channel, decode, encode


def list_classes(error: BaseException) -> list[str]:
    """The built-in classes of an exception, nearest first; the other box raises the first that its tests name."""
    return [kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind]


def serve() -> None:
    channel = Channel()
    with open("program.py", encoding="utf-8", newline="") as file:
        code = file.read()
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(code, "program.py", "exec"), namespace)
    channel.send({"ready": True})
    while True:
        try:
            asked = channel.receive()
        except EOFError:
            return
        answer = {"id": asked["id"]}
        try:
            positional, named = decode(asked["positional"]), decode(asked["named"])
            answer["value"] = encode(namespace[asked["name"]](*positional, **named))
        except BaseException as error:
            answer = {
                "id": asked["id"],
                "raised": list_classes(error),
                "text": type(error).__name__ + ": " + str(error),
            }
        channel.send(answer)


if __name__ == "__main__":
    serve()
