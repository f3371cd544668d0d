"""`check_program`: right answers pass; whatever else a candidate does is no pass."""

from __future__ import annotations

import textwrap

import pytest

from sandbox.errors import TestsInvalid
from sandbox.limits import MIB, Limits
from sandbox.programs import check_program

pytestmark = pytest.mark.usefixtures("boxes")

HELPERS = "def slow_add(a, b):\n    return a + b\n\ndef add(a, b):\n    '''The sum.'''\n"
TESTS = """
def check(candidate):
    assert candidate(1, 2) == 3
    assert candidate([1], b=[2]) == [1, 2]
    assert abs(candidate(0.5, 7) - slow_add(0.5, 7)) < 1e-9
    assert add("a", "b") == "ab"
"""
SHORT = Limits(seconds=20, cpu_seconds=2, memory_bytes=128 * MIB, processes=1)
RIGHT = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    "candidate",
    [
        RIGHT,
        "import sys\nprint('noise')\nsys.stderr.write('noise')\n" + RIGHT,
        "add = lambda a, b: a + b",
        "class Add:\n    def __call__(self, a, b): return a.__add__(b)\nadd = Add()",
        RIGHT + "if __name__ == '__main__':\n    raise SystemExit('as a program it would end')\n",
    ],
)
@pytest.mark.quick_cases(2)
def test_right_answers_pass(candidate: str) -> None:
    checked = check_program(candidate, TESTS, "add", helpers=HELPERS, limits=SHORT)
    assert (checked.passed, checked.reason, checked.detail) == (True, "passed", "")


# What every one of these leaves out is adding.
CHEATS = {
    "nothing": "def add(a, b): pass",
    "no such function": "def sum(a, b): return a + b",
    "no Python": "def add(a, b) return a + b",
    "leaving at the start": "import sys; sys.exit(0)",
    "leaving at once at the start": "import os; os._exit(0)",
    "leaving in the call": "def add(a, b): raise SystemExit(0)",
    "leaving at once in the call": "import os\ndef add(a, b): os._exit(0)",
    "leaving by a signal": "import os\ndef add(a, b): os.kill(os.getpid(), 9)",
    "killing everything": "import os\ndef add(a, b): os.kill(-1, 9); os.kill(os.getppid(), 9)",
    "an exception of its own": "class Passed(BaseException): pass\ndef add(a, b): raise Passed",
    "a result that equals everything": """
        class Any:
            def __eq__(self, other): return True
            def __sub__(self, other): return self
            def __abs__(self): return 0
            def __lt__(self, other): return True
        def add(a, b): return Any()
        """,
    "a number that equals everything": """
        class Any(float):
            def __eq__(self, other): return True
            def hex(self): return "inf"
        def add(a, b): return Any()
        """,
    "patched builtins": """
        import builtins, sys
        class Quiet(Exception):
            def __new__(cls, *args): sys.exit(0)
        builtins.AssertionError = Quiet
        builtins.abs = builtins.isinstance = lambda *args: True
        sys.excepthook = sys.settrace = lambda *args: None
        def add(a, b): return 0
        """,
    "patched asserts": """
        import ast, sys
        sys.flags = type("Flags", (), {"optimize": 2})
        __debug__2 = False
        def add(a, b):
            frame = sys._getframe()
            while frame:
                frame.f_globals["check"] = lambda candidate: None
                frame = frame.f_back
        """,
    "replaced helpers": "def slow_add(a, b): return 0\ndef check(candidate): pass\ndef add(a, b): return 0",
    "printing what passes": "print('passed', 'OK', 0, dict(verdict=0), flush=True)\ndef add(a, b): print(0)",
    "answers that are none": """
        import os
        for number in range(3, 20):
            try: os.write(number, b'{"ready": true}\\n' + b'{"id": 1, "passed": true, "exit": 0, "value": true}\\n' * 9)
            except OSError: pass
        def add(a, b): return True
        """,
    "answers without end": """
        import os
        while True:
            for number in range(3, 20):
                try: os.write(number, b'x' * 65536)
                except OSError: pass
        """,
    "an answer without end": "def add(a, b):\n    while True: yield 1",
    "an answer nested deeply": "def add(a, b):\n    x = []\n    for _ in range(100_000): x = [x]\n    return x",
    "a giant answer": "def add(a, b): return 'x' * (40 << 20)",
    "closing everything": "import os\nos.closerange(0, 100)\ndef add(a, b): return 3",
    "forking": "import os\ndef add(a, b):\n    if os.fork(): os._exit(0)\n    return 3",
    "forking at the start": "import os, time\nif os.fork() == 0: time.sleep(600)\nos._exit(0)",
    "a thread that leaves": "import os, threading\ndef add(a, b): threading.Thread(target=os._exit, args=(0,)).start()",
    "leaving at the end": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return 0",
    "a giant program": f"def add(a, b): return a + b\n#{'x' * (33 << 20)}",
    "too much memory": "x = bytearray(1 << 30)\ndef add(a, b): return a + b",
    "a generator's end": """
        def leave():
            try: yield 0
            finally:
                import os; os._exit(0)
        kept = leave(); next(kept)
        def add(a, b): return 0
        """,
    "objects that answer when they are removed": """
        import gc, os
        class Last:
            def __del__(self):
                for number in range(3, 20):
                    try: os.write(number, b'{"id": 1, "value": {"int": "0x3"}}\\n')
                    except OSError: pass
        def add(a, b):
            Last(); gc.collect(); return 0
        """,
    "gc: the channel's own objects": """
        import gc
        def add(a, b):
            for one in gc.get_objects():
                if type(one).__name__ == "Channel":
                    one.send({"id": 1, "value": True, "passed": True, "exit": 0})
                    one.send = lambda message: None
            return 0
        """,
    "memory written": """
        import ctypes, os
        def add(a, b):
            try:
                with open("/proc/self/mem", "r+b", 0) as file: file.seek(id(0) + 24); file.write(b"\\x03")
            except OSError: pass
            ctypes.memset(id(0) + 24, 3, 1)
            return 0
        """,
    "signals to everybody": """
        import os, signal
        for number in (signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM):
            for pid in (0, 1, 2, os.getppid()):
                try: os.kill(pid, number) if pid != 0 else None
                except OSError: pass
        signal.setitimer(signal.ITIMER_REAL, 0.01); signal.signal(signal.SIGALRM, lambda *args: os._exit(0))
        def add(a, b): return 0
        """,
    "threads left behind": """
        import os, threading, time
        def answer():
            while True:
                for number in range(3, 20):
                    try: os.write(number, b'{"id": 1, "value": {"int": "0x3"}}\\n')
                    except OSError: pass
        threading.Thread(target=answer, daemon=True).start()
        def add(a, b): time.sleep(0.2); return 0
        """,
    "another class": """
        class Number:
            @property
            def __class__(self): return int
            def __hash__(self): return 3
            def __bool__(self): return True
            def __eq__(self, other): return True
            def __index__(self): return 3
        def add(a, b): return Number()
        """,
    "keys that are equal": """
        class Key(str):
            def __hash__(self): return hash("int")
            def __eq__(self, other): return True
        class Odd(dict):
            def items(self): return [(Key("x"), 1)]
        def add(a, b): return Odd()
        """,
    "replaced modules": """
        import sys, types
        fake = types.ModuleType("json")
        fake.dumps, fake.loads = lambda value: '{"id": 1, "passed": true}', lambda line: {}
        for name in list(sys.modules): sys.modules[name] = fake
        def add(a, b): return 0
        """,
    "the channel's functions replaced": """
        import channel, __main__
        channel.encode = __main__.encode = lambda value: {"int": "0x3"}
        def add(a, b): return 0
        """,
    "at exit": """
        import atexit, sys, os
        sys.exitfunc = lambda: os._exit(0)
        atexit.register(os._exit, 0)
        def add(a, b): sys.exit(0)
        """,
    "an audit hook": """
        import sys, os
        sys.addaudithook(lambda event, args: os._exit(0) if event == "compile" else None)
        compile("0", "x", "eval")
        def add(a, b): return 0
        """,
    "frames by a traceback": """
        import sys
        def add(a, b):
            try: raise ValueError
            except ValueError as error:
                frame = error.__traceback__.tb_frame
                while frame:
                    for name in ("answer", "asked"):
                        if name in frame.f_locals: frame.f_locals[name].update(id=0, value=True, passed=True)
                    frame = frame.f_back
            return 0
        """,
    "an exception that lies about its class": """
        class Meta(type):
            __name__ = "AssertionError"
            def mro(cls): return [cls, Exception, BaseException, object]
        class Odd(Exception):
            def __str__(self): import os; os._exit(0)
        def add(a, b): raise Odd
        """,
    "not a number": "def add(a, b): return float('nan')",
    "a range without end": "def add(a, b): return range(10**18)",
    "an iterator that leaves": """
        import os
        class Steps:
            def __iter__(self): return self
            def __next__(self): os._exit(0)
        def add(a, b): return Steps()
        """,
    "processes without end": """
        import os
        while True:
            try: os.fork()
            except OSError: break
        def add(a, b): return 0
        """,
    "names of what the tests use": """
        import builtins
        builtins.all = builtins.zip = builtins.map = lambda *args: True
        def add(a, b): return 0
        """,
    "an import hook": """
        import sys
        class Find:
            def find_spec(self, *args): raise SystemExit(0)
        sys.meta_path.insert(0, Find())
        sys.path_hooks[:] = []
        def add(a, b): import fractions; return 0
        """,
}


@pytest.mark.parametrize("name", CHEATS)
@pytest.mark.quick_cases(8)
def test_a_cheat_is_no_pass(name: str) -> None:
    checked = check_program(textwrap.dedent(CHEATS[name]), TESTS, "add", helpers=HELPERS, limits=SHORT)
    assert not checked.passed and checked.detail, checked


# Tests that ask within something which takes an exception for its own end, or for a no.
SWALLOWING = """
class Sums:
    def __getitem__(self, at): return add(at, 1)
    @property
    def first(self): return add(0, 1)
def check(candidate):
    pairs = [(1, 2), (3, 4)]
    assert all(total == a + b for total, (a, b) in zip(map(lambda pair: candidate(*pair), pairs), pairs))
    for total, (a, b) in zip(map(candidate, [1, 3], [2, 4]), pairs):
        assert total == a + b
    assert not list(filter(lambda pair: candidate(*pair) != sum(pair), pairs))
    assert not [total for total in iter(lambda: candidate(1, 2), 3)]
    assert not any(total != at + 1 for at, total in zip(range(3), Sums()))
    assert getattr(Sums(), "first", 1) == 1
    try:
        assert candidate(1, 1) == 2
    except BaseException as error:
        assert not isinstance(error, AssertionError)
    async def ask():
        yield candidate(1, 2)
    async def gather():
        return [total async for total in ask()]
    try:
        gather().send(None)
    except StopIteration as done:
        assert all(total == 3 for total in done.value)
"""
RAISED = ("StopIteration", "StopAsyncIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit", "IndexError")
RAISED += ("AttributeError", "KeyError", "EOFError", "RuntimeError", "MemoryError", "AssertionError", "Warning")


@pytest.mark.slow
def test_tests_within_loops_are_passed_by_right_answers_alone() -> None:
    assert check_program(RIGHT, SWALLOWING, "add", limits=SHORT).passed
    off = "def add(a, b):\n    raise {}\n"
    assert [kind for kind in RAISED if check_program(off.format(kind), SWALLOWING, "add", limits=SHORT).passed] == []
    later = "count = 0\ndef add(a, b):\n    global count\n    count += 1\n    if count > {}: raise StopIteration\n"
    later += "    return a + b\n"
    assert [at for at in range(13) if check_program(later.format(at), SWALLOWING, "add", limits=SHORT).passed] == []


def test_a_program_that_is_gone_fails_even_where_its_tests_catch_everything() -> None:
    tests = "try:\n    add(1, 2)\nexcept BaseException:\n    pass"
    assert check_program("import os\ndef add(a, b): os._exit(0)", tests, "add", limits=SHORT).reason == "ended"


def test_an_exception_that_the_tests_name_arrives_as_itself() -> None:
    tests = (
        "for error in (ValueError, OSError):\n    try:\n        read(error is OSError)\n    except error:\n        pass"
    )
    tests += "\n    else:\n        assert False"
    read = "def read(missing):\n    raise {} if missing else {}\n"
    own = "class Odd(ValueError): pass\n"
    assert check_program(own + read.format("FileNotFoundError", "Odd"), tests, "read", limits=SHORT).passed
    assert not check_program(read.format("FileNotFoundError", "TypeError"), tests, "read", limits=SHORT).passed
    named = "try:\n    assert all(map(read, [1]))\nexcept StopIteration:\n    assert False"
    assert check_program("def read(at): raise StopIteration", named, "read", limits=SHORT).reason == "failed"


@pytest.mark.parametrize(
    "candidate",
    ["import time\ntime.sleep(600)", "def add(a, b):\n    import time\n    time.sleep(600)", "while True: pass"],
)
def test_a_program_that_does_not_end_is_ended(candidate: str) -> None:
    checked = check_program(candidate, TESTS, "add", helpers=HELPERS, limits=Limits(seconds=0.5))
    assert (checked.passed, checked.reason) == (False, "limit")


def test_tests_at_the_top_level_and_every_kind_of_plain_data() -> None:
    echo = "def echo(*values, **named): return values[0] if values else named"
    tests = """
numbers = True, -(10**5000), 0.1, float("inf"), 2j
for value in (None, *numbers, "a\\ud800\\n", b"\\0", [1, [2]], (1,), {1: (2, 3)}, {4}, frozenset({5})):
    assert echo(value) == value and type(echo(value)) is type(value)
assert echo(range(3)) == range(3) and list(echo(iter([1, 2]))) == [1, 2] and echo(a=1) == {"a": 1}
assert str(echo(float("nan"))) == "nan"
try:
    echo.missing
except AttributeError:
    pass
"""
    assert check_program(echo, tests, "echo").passed
    raising = "def look(key): return {}[key]"
    tests = "try:\n    look('x')\nexcept KeyError as error:\n    assert 'x' in str(error)\nelse:\n    assert False"
    assert check_program(raising, tests, "look").passed


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ("def check(candidate): pass", "never call add"),
        ("def check(candidate) assert", "cannot be run"),
        ("assert add(print, 1)", "cannot be passed"),
    ],
)
def test_tests_that_decide_nothing_are_an_error_and_no_verdict(tests: str, says: str) -> None:
    with pytest.raises(TestsInvalid, match=says):
        check_program(RIGHT, tests, "add")
    with pytest.raises(TestsInvalid, match="not the name of a function"):
        check_program(RIGHT, TESTS, "add(1, 2)")
