"""What programs try in order to get out, to see more, or to take more than they may; and that nothing is left of them.

Each attack is a program that prints one line for everything that it managed to do: a wall that holds leaves nothing.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.limits import KIB, MIB, Limits
from sandbox.run import run_code
from sandbox.unchecked import Language

pytestmark = pytest.mark.usefixtures("boxes")

# `tried` prints what an attack achieved; what is refused, for whatever reason, prints nothing. Calls of the kernel that
# Python does not offer go by their number, the same way on each machine.
START = """
import ctypes, mmap, os, platform, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, action):
    try:
        got = action()
    except BaseException:
        return
    if got != -1:
        print(name, repr(got)[:80])
def call(x86, arm, *arguments):
    return libc.syscall(x86 if platform.machine() == "x86_64" else arm, *arguments)
"""
ATTACKS = {
    "other files": """
        for path in ("/etc/shadow", "/etc/hosts", "/root", "/home", "/srv", "/var", "/sys",
                     "/proc/1/environ", "/proc/1/mem", "/proc/1/fd", OUTSIDE, OUTSIDE_FOLDER):
            tried(path, lambda: os.listdir(path) or -1 if os.path.isdir(path) else open(path, "rb").read(1))
        """,
    "other files by links": """
        for number, path in enumerate(("/etc/shadow", OUTSIDE, "/proc/1/root" + OUTSIDE, "/box/../../.." + OUTSIDE)):
            os.symlink(path, str(number))
            tried(path, lambda: open(str(number)).read())
            tried("hard " + path, lambda: os.link(path, "hard%d" % number))
        """,
    "the environment": """
        known = {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PWD"}
        tried("environment", lambda: sorted(set(os.environ) - known) or -1)
        tried("descriptors", lambda: sorted(set(os.listdir("/proc/self/fd")) - {"0", "1", "2", "3"}) or -1)
        """,
    "writing outside": """
        for path in ("/x", "/usr/bin/x", "/etc/x", "/dev/x", "/proc/1/x", "/box/../x", "/usr/bin/env", OUTSIDE):
            tried(path, lambda: open(path, "w").write("x"))
        tried("chmod", lambda: os.chmod("/usr/bin/env", 0o777))
        tried("remove", lambda: os.remove("/etc/passwd"))
        """,
    "other processes": """
        tried("seen", lambda: sorted(set(filter(str.isdigit, os.listdir("/proc"))) - {"1", str(os.getpid())}) or -1)
        # only inside
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
            tried("killed the caller", lambda: os.kill(CALLER, number))
            os.kill(1, number)  # bubblewrap, which as the first process gets no signal from within
        tried("killed all others", lambda: os.kill(-1, signal.SIGKILL))
        tried("traced", lambda: call(101, 117, 16, 1, 0, 0))
        tried("read memory", lambda: call(310, 270, 1, 0, 0, 0, 0, 0))
        tried("limited the first", lambda: __import__("resource").prlimit(1, 0, (1, 1)))
        tried("took a descriptor", lambda: call(438, 438, call(434, 434, 1, 0), 1, 0))
        """,
    "the network": """
        tried("connected", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
        tried("abstract", lambda: socket.socket(socket.AF_UNIX).connect(ABSTRACT))
        # only inside
        tried("connected outside", lambda: socket.create_connection(("192.0.2.1", 53), 2))
        for family, kind in ((2, 1), (10, 2), (40, 1), (16, 3), (17, 3), (38, 5)):  # 40: a virtual machine's host
            tried("family %d" % family, lambda: socket.socket(family, kind))
            tried("pair %d" % family, lambda: socket.socketpair(family, kind))
        tried("local", lambda: socket.socket(socket.AF_UNIX))
        """,
    "privileges": """
        tried("user", lambda: -1 if os.getuid() == os.geteuid() == 65534 else os.getuid())
        for action in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.chroot("/usr"), lambda: os.nice(-5)):
            tried("changed", lambda: action() or 0)
        tried("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
        tried("writable", lambda: libc.mount(None, b"/", None, 32 | 4096, None))
        tried("umount", lambda: libc.umount2(b"/proc/1", 2))
        for flags in (0x10000000, 0x20000000, 0x40000000, 0x00020000):
            tried("unshare", lambda: libc.unshare(flags))
            tried("clone", lambda: call(56, 220, flags | 17, 0, 0, 0, 0))
        tried("clone3", lambda: call(435, 435, 0, 0))
        for numbers in ((250, 219), (321, 280), (425, 425), (298, 241)):  # keyrings, BPF, io_uring, counters
            tried(numbers, lambda: call(*numbers, 0, 0, 0, 0, 0))
        tried("set-user-id", lambda: -1 if os.system("su -c true root </dev/null >/dev/null 2>&1") else "root")
        """,
    "memory beside the limits": """
        tried("memfd", lambda: os.memfd_create("x"))
        tried("System V", lambda: call(29, 194, 0, 1 << 28, 0o1600))
        tried("shared", lambda: mmap.mmap(-1, 1 << 20))
        tried("zero", lambda: os.open("/dev/zero", os.O_RDWR))
        tried("locked", lambda: libc.mlockall(3))
        one, other = socket.socketpair()
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
            tried("larger buffers", lambda: one.setsockopt(socket.SOL_SOCKET, option, 1 << 22) or 0)
        import fcntl
        tried("a larger pipe", lambda: fcntl.fcntl(os.pipe()[1], 1031, 1 << 20))
        tried("a socket on its way", lambda: socket.send_fds(one, [b"x"], [other.fileno()]))
        tried("a queue of messages", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        tried("more address space", lambda: __import__("resource").setrlimit(9, (1 << 34, 1 << 34)))
        """,
}


@dataclass(frozen=True)
class Outside:
    """What programs are told of this side, to make their tries real."""

    file: Path
    port: int
    abstract: str

    def fill(self, code: str) -> str:
        facts = {"OUTSIDE": str(self.file), "OUTSIDE_FOLDER": str(self.file.parent), "CALLER": os.getpid()}
        facts |= {"PORT": self.port, "ABSTRACT": self.abstract}
        return "\n".join([START, *(f"{name} = {value!r}" for name, value in facts.items()), textwrap.dedent(code)])


@pytest.fixture
def outside(readable: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    secret = readable / "secret"
    secret.write_text("a secret")
    secret.chmod(0o666)
    monkeypatch.setenv("RECKONER_SECRET_KEY", "a secret")
    abstract = f"\0{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(abstract)
        local.listen()
        yield Outside(secret, server.getsockname()[1], abstract)
    assert secret.read_text() == "a secret"


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_achieves_nothing(attack: str, outside: Outside) -> None:
    done = run_code(outside.fill(ATTACKS[attack]) + "\nprint('to the end')")
    assert (done.stdout, done.stderr) == ("to the end\n", "")
    assert done.ran


def test_the_attacks_would_succeed_without_walls(outside: Outside) -> None:
    """The same programs outside do read, connect and see: what they print there is what the walls take away."""
    for attack in ("other files", "the network", "other processes"):
        code = outside.fill(ATTACKS[attack].partition("# only inside")[0])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout, (attack, done.stderr)


def marked(code: str, mark: str) -> str:
    """Python whose processes all carry `mark` as their name, by which they can be found from outside."""
    return f"import os, sys, time\nopen('/proc/self/comm', 'w').write({mark!r})\n{textwrap.dedent(code)}"


def find_marked(mark: str) -> list[str]:
    found = []
    for name in Path("/proc").glob("[0-9]*/comm"):
        try:
            found += [str(name)] if name.read_text().strip() == mark else []
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(6)


SMALL = Limits(seconds=20, cpu_seconds=20, memory_bytes=64 * MIB, disk_bytes=MIB, processes=8, output_bytes=16 * KIB)
# What the result says → programs with their limits. Those that run to the end print "as it should be".
GREEDY: dict[str, dict[str, tuple[Limits, str]]] = {
    "out_of_memory": {
        "one large block": (SMALL, "x = bytearray(1 << 30)"),
        "many processes with a little each": (
            SMALL,
            """
            for _ in range(6):
                if os.fork() == 0:
                    x = bytearray(b'x') * (40 << 20)
                    time.sleep(60)
            time.sleep(60)
            """,
        ),
        "memory of processes whose first thread has ended": (
            Limits(seconds=60, memory_bytes=96 * MIB, processes=16),
            """
            import threading
            def hold():
                time.sleep(0.3)
                x = bytearray(b'x') * (40 << 20)
                time.sleep(60)
            for _ in range(6):
                if os.fork() == 0:
                    threading.Thread(target=hold).start()
                    call(60, 93, 0)
            time.sleep(60)
            """,
        ),
        "buffers of sockets": (
            Limits(seconds=60, memory_bytes=128 * MIB, processes=12),
            """
            import socket
            for _ in range(10):
                if os.fork() == 0:
                    pairs = [socket.socketpair() for _ in range(28)]
                    for end in (end for pair in pairs for end in pair):
                        end.setblocking(False)
                        try:
                            while True: end.send(b'x' * 65536)
                        except OSError: pass
                    time.sleep(60)
            time.sleep(60)
            """,
        ),
        "files without content": (
            Limits(seconds=60, memory_bytes=48 * MIB),
            """
            n = 0
            while True:
                os.close(os.open(str(n), os.O_CREAT))
                n += 1
            """,
        ),
    },
    "timed_out": {
        "a fork bomb": (
            Limits(seconds=0.5, processes=8),
            """
            while True:
                try: os.fork()
                except OSError: pass
            """,
        ),
        "processor time of several": (
            Limits(seconds=60, cpu_seconds=0.4, processes=8),
            """
            for _ in range(3):
                if os.fork() == 0:
                    while True: pass
            time.sleep(600)
            """,
        ),
        "sleeping, deaf to signals": (
            Limits(seconds=0.4),
            """
            import signal
            for n in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(n, signal.SIG_IGN)
            time.sleep(600)
            """,
        ),
    },
    "truncated": {
        "endless output": (SMALL, "while True: print('x' * 10_000)"),
        "endless complaints": (SMALL, "while True: sys.stderr.write('x' * 10_000)"),
    },
    "ran": {
        "a full disk": (
            SMALL,
            """
            written = 0
            try:
                for n in range(100):
                    with open('/tmp/%d' % n, 'wb') as file: written += file.write(bytes(100_000))
            except OSError as error: print('as it should be' if written <= 1 << 20 and error.errno == 28 else error)
            """,
        ),
        "one huge file": (
            SMALL,
            """
            import signal
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            try:
                with open('big', 'wb') as file: file.truncate(1 << 30)
            except OSError as error: print('as it should be' if error.errno == 27 else error)
            """,
        ),
        "too many threads": (
            SMALL,
            """
            import threading
            try:
                for n in range(100): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
            except RuntimeError: print('as it should be' if n < 8 else n)
            """,
        ),
        "an event loop": (
            SMALL,
            """
            import asyncio
            async def count(): return [await asyncio.sleep(0, n) for n in range(3)]
            print('as it should be' if asyncio.run(count()) == [0, 1, 2] else 'no')
            """,
        ),
        "a daemon that outlives": (
            SMALL,
            """
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    for n in (0, 1, 2): os.close(n)
                    time.sleep(600)
                os._exit(0)
            os.wait()
            print('as it should be')
            """,
        ),
        "a daemon that holds the output": (
            SMALL,
            """
            if os.fork() == 0: time.sleep(600)
            print('as it should be')
            """,
        ),
    },
}


@pytest.mark.parametrize(("says", "name"), [(says, name) for says, programs in GREEDY.items() for name in programs])
def test_a_limit_holds_and_nothing_is_left(says: str, name: str, mark: str) -> None:
    limits, code = GREEDY[says][name]
    done = run_code(marked(code, mark), limits=limits)
    said = {one: getattr(done, one) for one in ("ran", "timed_out", "out_of_memory", "truncated")}
    assert said == {one: one == says for one in said}, done
    assert done.stdout == "as it should be\n" if says == "ran" else done.failure
    assert max(len(done.stdout), len(done.stderr)) <= limits.output_bytes
    assert find_marked(mark) == []


@pytest.mark.parametrize(
    ("code", "language", "exit_code"),
    [
        ("raise SystemExit(99999)", "python", 99999 % 256),
        ("import os; os._exit(-1)", "python", 255),
        ("import os; os.kill(os.getpid(), 9)", "python", 128 + signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", "python", 128 + signal.SIGSEGV),
        ("exit 300", "shell", 300 % 256),
        ("no-such-command", "shell", 127),
        ("false; echo on", "shell", 1),
    ],
)
def test_exit_codes_are_those_of_the_program(code: str, language: Language, exit_code: int) -> None:
    done = run_code(code, language)
    assert (done.exit_code, done.ran, done.stdout, done.timed_out) == (exit_code, False, "", False)


def test_whoever_dies_takes_the_program_along(readable: Path, mark: str) -> None:
    """A worker that is killed by the kernel can end nothing itself."""
    code = marked("print(1); time.sleep(600)", mark)
    caller = "from sandbox.unchecked import run_unchecked\nimport sys\nrun_unchecked(sys.argv[1])"
    with subprocess.Popen(["/usr/bin/python3", "-B", "-c", caller, code], cwd=readable) as worker:
        wait_until(lambda: find_marked(mark) != [])
        worker.kill()
    wait_until(lambda: find_marked(mark) == [])


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within 20 s")
