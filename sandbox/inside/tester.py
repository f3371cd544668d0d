"""In the box of the tests: runs them, with functions in the candidate's place that ask the other box.

The verdict is this process's exit code, which the candidate cannot reach: no process, file or memory is shared, only
two pipes with plain data.
"""

from __future__ import annotations

import ast
import builtins
import os
import random
import sys
import traceback
from types import CodeType
from typing import Any

from channel import Channel, NotPlain, decode, encode

PASSED, FAILED, GONE, INVALID = 0, 10, 11, 12  # sandbox/programs.py has the same


class Gone(BaseException):
    """The candidate ended, or answers out of turn. Whatever the tests catch, it is the verdict."""


class NoTest(BaseException):
    """The tests cannot decide. Whatever they catch, it is the verdict."""


class CandidateRaised(Exception):
    """The candidate's function raised, whatever it was. Only a class that the tests name arrives as itself: so no
    exception has a meaning that its tests did not give it, as StopIteration has, which ends `map` and `zip`."""


NEVER = (StopIteration, StopAsyncIteration)


class Asked:
    """A function of the candidate: called here, run there."""

    calls = 0
    end: BaseException | None = None  # Gone or NoTest, once it was raised

    def __init__(self, channel: Channel, name: str, expected: dict[str, type[Exception]]) -> None:
        """`expected`: the classes of exceptions that the tests name."""
        self._channel = channel
        self._expected = expected
        self.__name__ = name

    def __call__(self, *positional: Any, **named: Any) -> Any:
        if Asked.end is not None:
            raise Asked.end
        try:
            return self._ask(positional, named)
        except (Gone, NoTest) as error:
            Asked.end = error
            raise

    def _ask(self, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        Asked.calls += 1
        number = Asked.calls
        try:
            message = {"id": number, "name": self.__name__, "positional": encode(positional), "named": encode(named)}
        except NotPlain as error:
            raise NoTest(
                "the tests call " + self.__name__ + " with arguments that cannot be passed: " + str(error)
            ) from None
        try:
            self._channel.send(message)
            answer = self._channel.receive()
            if answer["id"] != number:
                raise Gone("the program answers out of turn")
            raised, text = answer.get("raised"), str(answer.get("text"))
            kinds = [self._expected[name] for name in raised or () if name in self._expected]
            value = decode(answer["value"]) if raised is None else None
        except Exception as error:  # whatever the candidate sends
            raise Gone("the program ended or did not answer with plain data: " + repr(error)[:200]) from None
        if raised is None:
            return value
        try:
            failure = kinds[0](text) if kinds else CandidateRaised(text)
        except TypeError:  # a class that wants more than a text
            failure = CandidateRaised(text)
        raise failure


def find_expected(names: set[str]) -> dict[str, type[Exception]]:
    """The classes of exceptions among the names."""
    kinds = {name: getattr(builtins, name, None) for name in names}
    return {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, NEVER)
    }


def read(name: str) -> str:
    with open(name, encoding="utf-8", newline="") as file:
        return file.read()


def prepare(channel: Channel, entry_point: str) -> tuple[CodeType, dict[str, Any]]:
    """(code of the tests, namespace to run it in). Raises NoTest."""
    namespace: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(read("helpers.py"), "helpers.py", "exec"), namespace)
        tree = ast.parse(read("tests.py"), "tests.py")
        code = compile(tree, "tests.py", "exec")
    except Exception as error:
        raise NoTest("the tests or their helpers cannot be run: " + repr(error)[:200]) from None
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    expected = find_expected(used)
    for name in used - set(namespace) - set(dir(builtins)) | {entry_point}:
        namespace[name] = Asked(channel, name, expected)
    return code, namespace


def run_tests() -> None:
    entry_point = sys.argv[1]
    channel = Channel()
    code, namespace = prepare(channel, entry_point)
    try:
        ready = channel.receive()
    except (EOFError, ValueError, RecursionError):
        ready = None
    if ready != {"ready": True}:
        raise Gone("the program ended before its tests")
    random.seed(0)  # tests that draw their cases draw the same ones each time
    exec(code, namespace)
    if callable(check := namespace.get("check")) and not isinstance(check, Asked):
        check(namespace[entry_point])
    if Asked.calls == 0:
        raise NoTest("the tests never call " + entry_point)


def decide() -> int:
    failed = False
    try:
        run_tests()
    except (Gone, NoTest) as error:
        Asked.end = Asked.end or error
    except BaseException:
        traceback.print_exc()
        failed = True
    if Asked.end is not None:
        sys.stderr.write(str(Asked.end) + "\n")
        return GONE if isinstance(Asked.end, Gone) else INVALID
    return FAILED if failed else PASSED


if __name__ == "__main__":
    verdict = decide()
    sys.stderr.flush()
    os._exit(verdict)
