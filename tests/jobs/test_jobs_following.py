"""What somebody at a terminal sees of a job until it is over, and what Ctrl-C does."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from rich.console import Console

from jobs.following import follow_job
from jobs.models import Job
from project.demo.loop import KIND
from tools.factories import JobFactory

# Following closes connections that are too old, which inside a test's own transaction would end the test.
pytestmark = pytest.mark.django_db(transaction=True)


def seen_as(*changes: dict[str, object] | Callable[[], None]) -> Callable[[], Job | None]:
    """A job that changes between one look and the next, as a worker's would; or something happens before the look."""
    job = JobFactory()
    left: Iterator[dict[str, object] | Callable[[], None]] = iter(changes)

    def find() -> Job | None:
        change = next(left)
        if callable(change):
            change()
        else:
            Job.objects.filter(id=job.id).update(**change)
        return Job.objects.get(id=job.id)

    return find


def working(message: str, progress: float = 0.0) -> dict[str, object]:
    return {"state": "running", "lease_until": timezone.now(), "message": message, "progress": progress}


def over(**fields: object) -> dict[str, object]:
    return {
        "lease_until": None,
        "state": "succeeded",
        "progress": 1.0,
        "finished_at": timezone.now(),
        "result": {"better": True},
    } | fields


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_pipe_gets_a_line_a_stage() -> None:
    console = Console(file=io.StringIO())
    find = seen_as(
        {"message": ""},
        working("train: 1 of 9", 0.1),
        {"message": "train: 5 of 9", "progress": 0.4},
        {"message": "evaluate: 1 of 2", "progress": 0.8},
        over(message="done"),
    )
    job = follow_job(find, console=console, title="work", stage=lambda text: text.split(":")[0], poll_seconds=0)
    assert job is not None and (job.state, job.result) == ("succeeded", {"better": True})
    assert lines(console) == [" 10%  train: 1 of 9", " 80%  evaluate: 1 of 2"]


def test_a_terminal_gets_a_bar_with_the_message() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    find = seen_as(working("train: 1 of 9", 0.5), over())
    follow_job(find, console=console, title="work", poll_seconds=0)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "train: 1 of 9" in shown and "━" in shown
    assert " 50%" not in shown


def test_without_a_job_there_is_nothing_to_wait_for() -> None:
    assert follow_job(lambda: None, console=Console(file=io.StringIO()), title="work") is None


def test_a_database_that_closes_the_connection_is_asked_again() -> None:
    def broken() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    console = Console(file=io.StringIO())
    job = follow_job(seen_as(broken, broken, over()), console=console, title="work", poll_seconds=0)
    assert job is not None and job.state == "succeeded"


def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_ends_the_following_and_not_the_job() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with pytest.raises(KeyboardInterrupt):
        follow_job(
            seen_as(working("train"), interrupted, {}), console=console, title="work",
            poll_seconds=0,
        )  # fmt: skip
    assert Job.objects.get().state == "running"
    assert console.file.getvalue().rstrip("\n").endswith("\x1b[?25h")  # type: ignore[attr-defined]  # the cursor is back


class TestDemoWait:
    def run(self, action: str = "wait") -> tuple[int, dict[str, object]]:
        with pytest.raises(SystemExit) as ended:
            call_command("demo", action, "--json", stdout=(out := io.StringIO()), stderr=io.StringIO())
        return int(str(ended.value.code)), json.loads(out.getvalue())

    @pytest.mark.parametrize(
        ("fields", "code", "told"),
        [
            ({"result": {"better": True}}, 0, {"better": True, "loop_seconds": 0.0}),
            ({"result": {"better": False}}, 0, {"better": False, "loop_seconds": 0.0}),
            ({"state": "dead", "result": None, "error": "no space"}, 2, {"error": "The demo loop is dead: no space"}),
        ],
    )
    @pytest.mark.parametrize("action", ["wait", "show"])
    def test_its_exit_code_says_how_the_loop_ended(
        self, action: str, fields: dict[str, object], code: int, told: dict[str, object]
    ) -> None:
        now = timezone.now()
        JobFactory(kind=KIND, started_at=now, **over(finished_at=now) | fields)
        assert self.run(action) == (code, told)

    def test_without_a_loop_it_says_so(self) -> None:
        assert self.run() == (2, {"error": "This ledger has no demo."})

    def test_an_interrupt_leaves_the_loop_alone(self) -> None:
        job = JobFactory(kind=KIND, started_at=timezone.now(), **working("train"))
        before = signal.signal(signal.SIGALRM, lambda *_: interrupted())
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            assert self.run() == (130, {"error": "Stopped following. The demo continues."})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        job.refresh_from_db()
        assert job.state == "running"
