"""`run_code`: what goes in, what comes out, many at once, and nothing left on this side."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.limits import KIB, Limits
from sandbox.run import run_code

pytestmark = pytest.mark.usefixtures("boxes")


def test_input_files_and_output() -> None:
    code = """
import sys, helper
from multiprocessing import Lock
with Lock():
    print(helper.double(int(input())), open("data/one.bin", "rb").read())
open("helper.py", "w").write("its own to change")
sys.stdout.flush()
sys.stdout.buffer.write(b"\\xff\\0")
sys.stderr.write("said")
"""
    files = {"helper.py": "def double(x): return 2 * x", "data/one.bin": b"\0\1"}
    done = run_code(code, stdin="21\n", files=files)
    assert (done.stdout, done.stderr, done.exit_code, done.ran) == ("42 b'\\x00\\x01'\n\ufffd\0", "said", 0, True)
    assert done.failure is None and done.seconds > 0


def test_a_shell_has_its_tools_and_places() -> None:
    code = (
        "awk 'BEGIN {print 6 * 7}'; whoami; cat <(pwd) > /tmp/x; cat /tmp/x; echo said > /dev/stderr; cat > /dev/stdout"
    )
    done = run_code(code, "shell", stdin="given")
    assert (done.stdout, done.stderr, done.ran) == ("42\nnobody\n/box/work\ngiven", "said\n", True)


def test_a_failure_says_in_a_line_why() -> None:
    assert run_code("1 / 0").failure == "ended with exit code 1: ZeroDivisionError: division by zero"
    assert run_code("print('x' * 9999)", limits=Limits(output_bytes=KIB)).failure == "printed more than 1 KiB"
    slow = run_code("import time; time.sleep(60)", limits=Limits(seconds=0.3))
    assert slow.failure == "took longer than 0.3 s, or 30 s of processor time"
    assert run_code("x = 'y' * (1 << 40)").failure == "used more than 256 MiB of memory"


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "main.py", ".", "", "a//b", "a\0b"])
def test_a_file_that_would_lie_outside_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the path of a file"):
        run_code("print(1)", files={name: "x"})


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"memory_bytes": 1}, {"processes": 0}, {"output_bytes": -1}])
def test_limits_outside_their_range_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        Limits(**limits)


@pytest.mark.slow
def test_many_at_once_mix_up_nothing_and_leave_nothing() -> None:
    def use(number: int) -> str:
        return run_code(f"print(open('own').read() * {number})", files={"own": str(number)}).stdout

    use(0)
    gc.collect()
    before, temporary = sorted(os.listdir("/proc/self/fd")), set(os.listdir("/tmp"))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(use, range(12))) == [str(number) * number + "\n" for number in range(12)]
    assert sorted(os.listdir("/proc/self/fd")) == before
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert [pid for pid in children if "bwrap" in Path(f"/proc/{pid}/comm").read_text()] == []
    assert {name for name in set(os.listdir("/tmp")) - temporary if "sandbox" in name} == set()
