"""The client in processes of its own: what it imports, what it sends at the end, and after a fork."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from decisions.models import Decision

RunHost = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.slow
RECORD = """
import os, sys
from reckoner_client import Reckoner, Sending
def record(text):
    return client.record_decision("filer", {"text": text}, "travel", policy_name="outside")
"""


def stored_texts() -> list[str]:
    return sorted(state["text"] for state in Decision.objects.values_list("state", flat=True))


def test_importing_the_client_loads_neither_django_nor_torch_nor_anything_of_ours() -> None:
    program = "import sys, reckoner_client; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"reckoner_client", "urllib3", "msgspec"} <= loaded
    assert loaded & {
        "django", "torch", "transformers", "httpx", "pydantic", "numpy",
        "project", "training", "decisions", "models_registry", "jobs", "workspaces", "sandbox",
    } == set()  # fmt: skip


@pytest.mark.django_db(transaction=True)
class TestHosts:
    def test_the_end_of_a_program_sends_what_waits(self, run_host: RunHost) -> None:
        """By sys.exit in the middle of the linger, with an event loop and threads, and a handler that runs before the
        client's own, when a thread may no longer be had (Python 3.12 and later)."""
        run_host(
            RECORD
            + """
import asyncio, atexit, threading
client = Reckoner(sending=Sending(linger_seconds=60, exit_seconds=60))
async def main():
    record("in a loop")
    await asyncio.gather(*(asyncio.to_thread(record, f"thread {n}") for n in range(2)))
asyncio.run(main())
thread = threading.Thread(target=record, args=("in a thread",))
thread.start()
thread.join()
atexit.register(record, "at the end")
sys.exit(0)
"""
        )
        assert stored_texts() == ["at the end", "in a loop", "in a thread", "thread 0", "thread 1"]

    def test_with_nobody_to_send_to_the_end_waits_no_longer_than_it_may(self, run_host: RunHost) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            done = run_host(
                RECORD
                + """
client = Reckoner(sending=Sending(exit_seconds=0.3))
record("to nobody")
print("the host went on")
""",
                url=f"http://127.0.0.1:{free.getsockname()[1]}",
                PYTHONWARNINGS="default",
            )
        assert done.stdout == "the host went on\n"
        assert "1 recorded items were not sent and are dropped: http://127.0.0.1" in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_fork_from_many_threads_leaves_no_lock_behind(self, run_host: RunHost) -> None:
        """Threads record all the time: a child that inherited a held lock would hang, or the queue send it twice."""
        done = run_host(
            RECORD
            + """
import signal, threading
client = Reckoner(sending=Sending(linger_seconds=0.001, exit_seconds=60, queue_items=100_000))
stop = threading.Event()
def busy():
    number = 0
    while not stop.wait(0.0005):
        record(f"busy {number}")
        number += 1
threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for fork in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # instead of hanging it is killed, and its status tells
        record(f"child {fork}")
        os._exit(0 if client.flush(25) and client.stats().recorded == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, (fork, status)
stop.set()
for thread in threads:
    thread.join()
assert client.flush(60)
print(client.stats().acknowledged)
""",
            PYTHONWARNINGS="error,ignore:This process:DeprecationWarning",
        )
        children = [text for text in stored_texts() if text.startswith("child")]
        assert children == [f"child {fork}" for fork in range(5)]
        assert Decision.objects.count() == int(done.stdout) + 5

    @pytest.mark.parametrize("answered", [200, None])
    def test_sending_imports_nothing(self, answered: int | None, run_host: RunHost, live_server: Any, key: str) -> None:
        """A module's lock that the thread holds at a fork is held in the child for ever."""
        with socket.socket() as taken:
            taken.bind(("localhost", 0))  # and does not listen: nobody answers there
            url = live_server.url if answered else f"http://localhost:{taken.getsockname()[1]}"
            done = run_host(
                RECORD
                + """
client = Reckoner(sending=Sending(linger_seconds=0, longest_pause_seconds=0.01))
before = set(sys.modules)
record("text")
done = client.flush(60 if os.environ["ANSWERED"] == "200" else 0.3)
print([done, sorted(set(sys.modules) - before)], flush=True)
os._exit(0)
""",
                url=url,
                ANSWERED=str(answered),
                RECKONER_KEY=key,
            )
        assert done.stdout.split("\n")[0] == f"[{answered == 200}, []]"

    @pytest.mark.parametrize("library", ["multiprocessing", "billiard"])
    def test_the_end_of_a_worker_process_sends_what_waits(self, library: str, run_host: RunHost) -> None:
        """Such children end by os._exit, without what was registered for the end of a program."""
        if library == "billiard":
            pytest.importorskip("billiard")
        run_host(
            RECORD
            + f"""
import {library} as library
client = Reckoner(sending=Sending(linger_seconds=60, exit_seconds=60))
record("parent")
if __name__ == "__main__":
    worker = library.get_context("fork").Process(target=record, args=("worker",))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
""",
            PYTHONWARNINGS="error,ignore:This process:DeprecationWarning",
        )
        assert stored_texts() == ["parent", "worker"]

    def test_a_signal_handler_may_record_whatever_it_interrupts(self, run_host: RunHost) -> None:
        """The thread's start, after which there must not be two threads, and recording, which must not hang."""
        done = run_host(
            RECORD
            + """
import signal, threading
client = Reckoner(sending=Sending(linger_seconds=0.2, exit_seconds=60, queue_items=100_000))
handled = 0
def on_alarm(*_):
    global handled
    handled += 1
    record("in a handler")
signal.signal(signal.SIGALRM, on_alarm)
start = threading.Thread.start
def start_and_be_interrupted(thread):
    threading.Thread.start = start
    signal.raise_signal(signal.SIGALRM)
    start(thread)
    signal.raise_signal(signal.SIGALRM)
threading.Thread.start = start_and_be_interrupted
record("outside")
assert handled == 2
print(sum(thread.name == "reckoner-client" for thread in threading.enumerate()))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
number = 1
while handled < 50:
    record("outside")
    number += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert client.flush(60)
print(number + handled, client.stats().acknowledged)
"""
        )
        threads, expected, acknowledged = map(int, done.stdout.split())
        assert threads == 1
        assert acknowledged == expected == Decision.objects.count()
