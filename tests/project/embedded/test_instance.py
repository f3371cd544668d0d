"""`up` with real databases and real signals: nothing is orphaned, nothing is lost, whatever is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import psycopg
import pytest

from project.embedded.instance import StopRequested, _Instance
from project.embedded.layout import PROJECT_ROOT
from project.embedded.processes import MARK, find_processes
from project.embedded.programs import Plan
from project.embedded.valkey import is_port_free, pick_port
from tests.project.embedded.waiting import wait_for

SMALL_INSTANCE = Path(__file__).with_name("small_instance.py")
OUTSIDE = ("DATABASE_URL", "REDIS_URL", "RECKONER_VAR", "RECKONER_MODEL_SERVER_URL")


# One after the other on one worker: instances beside each other might pick each other's ports before they listen.
pytestmark = pytest.mark.xdist_group("embedded")


class Up:
    """A running small instance, in a process group of its own as in a terminal."""

    def __init__(self, layout, port, *arguments, **environment):
        clean = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
        layout.var.mkdir(exist_ok=True)
        self.layout = layout
        self.process = subprocess.Popen(
            [sys.executable, str(SMALL_INSTANCE), str(layout.var), str(port), *arguments],
            cwd=PROJECT_ROOT,
            env={**clean, "PYTHONPATH": str(PROJECT_ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_until_ready(self):
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            pytest.fail(f"did not start: {line}{self.process.stderr.read()}")
        self.url = line.split()[1]
        return self

    def ask_web(self):
        """(process id of the server behind the web address, its database's address), None when it does not answer."""
        try:
            with urllib.request.urlopen(self.url, timeout=5) as response:
                pid, database_url = response.read().decode().split()
        except OSError:
            return None
        return int(pid), database_url

    def terminate(self):
        self.process.terminate()

    def interrupt(self):
        """Ctrl-C in the terminal reaches the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        """Wait for its end: (exit code, standard output, standard error)."""
        out, error = self.process.communicate(timeout=90)
        return self.process.returncode, out, error

    def find(self, word):
        """The instance's processes with the word in their command line, the oldest first."""
        found = []
        for process in find_processes(self.layout):
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end, and be a zombie, while it is looked at
                if word in " ".join(process.cmdline()):
                    found.append((process.create_time(), process.pid, process))
        return [process for _, _, process in sorted(found)]


@pytest.fixture
def port(tmp_path):
    return pick_port(tmp_path / "port")


def count_notes(database_url):
    with psycopg.connect(database_url) as connection:
        return connection.execute("SELECT count(*) FROM note").fetchone()[0]


def names_of(processes):
    """Of those that are still there: a session of PostgreSQL may end while it is looked at."""
    names = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return names


def test_sigterm_and_ctrl_c_stop_everything_in_order_and_the_next_start_finds_its_data(layout, port):
    for start, stop in enumerate((Up.terminate, Up.interrupt), 1):
        up = Up(layout, port).wait_until_ready()
        _, database_url = up.ask_web()
        assert count_notes(database_url) == start
        assert json.loads(layout.services.read_text())["DATABASE_URL"] == database_url
        assert names_of(find_processes(layout)) >= {"postgres", "valkey-server", "sleep"}
        stop(up)
        assert up.end()[0] == 0
        assert find_processes(layout) == []
        assert not layout.services.exists()
        assert is_port_free("127.0.0.1", port)
        log = (layout.log / "supervisord.log").read_text()
        stops = [log.rindex(f"stopped: {name}") for name in ("web", "idle", "postgres")]
        assert stops == sorted(stops)
        assert (layout.log / "postgres.log").read_text().count("database system is shut down") == start


def test_while_it_runs_what_ends_is_started_again_and_what_is_left_or_comes_second_is_ended(layout, cluster, port):
    up = Up(layout, port).wait_until_ready()
    restarts_a_program_and_ends_its_children(up)
    ends_what_lost_its_parent(up)
    refuses_a_second_one(up, port)
    up.terminate()
    code, _, said = up.end()
    assert code == 0
    assert "web ended and was started again" in said
    assert find_processes(layout) == []


@pytest.mark.slow
def test_children_of_a_killed_program_answer_until_its_next_process_has_loaded(layout, cluster, port):
    up = Up(layout, port, SMALL_WEB_SECONDS="3").wait_until_ready()
    old_worker, _ = up.ask_web()
    psutil.Process(old_worker).parent().kill()
    answers = []
    wait_for(lambda: answers.append(up.ask_web()) or old_worker not in psutil.pids())
    assert None not in answers[:-1]  # the last one may have been cut off by the end of the old one
    assert up.ask_web()[0] != old_worker
    up.terminate()
    assert up.end()[0] == 0


def restarts_a_program_and_ends_its_children(up):
    old_worker, database_url = up.ask_web()
    parent = psutil.Process(old_worker).parent()
    parent.kill()
    wait_for(lambda: (answer := up.ask_web()) and answer[0] != old_worker and old_worker not in psutil.pids())
    server = up.find("-D " + str(up.layout.postgres))[0]
    server.kill()

    def answers():
        try:
            return count_notes(database_url) == 1
        except psycopg.OperationalError:
            return False

    wait_for(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
    wait_for(answers)


def ends_what_lost_its_parent(up):
    programs = [up.ask_web()[0], *(process.pid for process in up.find("sleep"))]
    shell = ["sh", "-c", "sleep 1234 >/dev/null 2>&1 & echo $!"]
    mark = {**os.environ, MARK: str(up.layout.var)}
    left = int(subprocess.run(shell, env=mark, capture_output=True, text=True, check=True).stdout)
    assert left in [process.pid for process in up.find("sleep")]
    wait_for(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE)
    assert [up.ask_web()[0], *(process.pid for process in up.find("sleep"))] == programs


def refuses_a_second_one(up, port):
    code, _, said = Up(up.layout, port).end()
    assert code == 3
    assert f"already runs on {up.layout.var} (process {up.process.pid})" in said
    other = type(up.layout)(up.layout.var.parent / "other")
    code, _, said = Up(other, port).end()
    assert code == 2
    assert f"port {port} on 127.0.0.1 is in use" in said
    assert not other.postgres.exists()
    assert up.ask_web() is not None


def test_whatever_is_killed_nothing_is_left_and_the_next_start_goes_on(layout, cluster, port):
    # Everything at once.
    up = Up(layout, port).wait_until_ready()
    up.process.send_signal(signal.SIGSTOP)
    for process in find_processes(layout):
        process.kill()
    up.process.kill()
    up.end()
    # `up` and its supervisor: the next start ends what they leave.
    up = Up(layout, port).wait_until_ready()
    assert count_notes(up.ask_web()[1]) == 2
    up.process.send_signal(signal.SIGSTOP)
    up.find("project.embedded.overseer")[0].kill()
    up.process.kill()
    up.end()
    left = find_processes(layout)
    assert {process.name() for process in left} >= {"postgres", "valkey-server", "sleep"}
    up = Up(layout, port).wait_until_ready()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in left)
    assert count_notes(up.ask_web()[1]) == 3
    # The supervisor: `up` ends with an error.
    up.find("project.embedded.overseer")[0].kill()
    code, _, said = up.end()
    assert code == 1
    assert "stopped processes that an earlier instance left: " in said
    assert "the supervisor has ended" in said
    assert find_processes(layout) == []
    # `up` alone: its supervisor stops everything.
    up = Up(layout, port).wait_until_ready()
    assert count_notes(up.ask_web()[1]) == 4
    shut_down = (layout.log / "postgres.log").read_text().count("database system is shut down")
    up.process.kill()
    up.end()
    wait_for(lambda: find_processes(layout) == [])
    assert (layout.log / "postgres.log").read_text().count("database system is shut down") == shut_down + 1


def test_once_ends_with_the_demos_result_and_code(layout, cluster, port):
    code, out, _ = Up(layout, port, "--once", "7").end()
    assert code == 7
    assert json.loads(out.splitlines()[-1]) == {"result": 1}
    assert find_processes(layout) == []


def test_a_failed_step_is_told_and_everything_stopped(layout, port):
    # The stand-in for the migration cannot reach this server, which also keeps the embedded one from being started.
    code, _, said = Up(layout, port, DATABASE_URL="postgresql://nobody@127.0.0.1:1/none").end()
    assert code == 1
    assert "prepare failed" in said and "OperationalError" in said
    assert not layout.postgres.exists()
    assert find_processes(layout) == []


def test_servers_given_from_outside_are_used_and_none_is_started(layout, port):
    outside = {"DATABASE_URL": "postgresql://outside/x", "REDIS_URL": "redis://outside/0"}
    up = Up(layout, port, "--bare", **outside).wait_until_ready()
    programs = wait_for(lambda: up.find("sleep 1000"))
    assert programs[0].environ()["DATABASE_URL"] == outside["DATABASE_URL"]
    assert {process.name() for process in find_processes(layout)}.isdisjoint({"postgres", "valkey-server"})
    up.process.terminate()
    assert up.end()[0] == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_a_destructor_swallowed_stops_it_all_the_same(layout):
    layout.create()
    instance = _Instance(layout, lambda message: None)
    instance.plan = Plan(url="http://nowhere", programs=())

    class Leaving:
        def __del__(self):
            instance.on_signal(signal.SIGTERM, None)

    leaving = Leaving()
    del leaving  # what its destructor raises is printed and forgotten
    with pytest.raises(StopRequested) as stopped:
        instance.stay(once=False)
    assert stopped.value.number == signal.SIGTERM
