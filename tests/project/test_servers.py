"""Servers of one's own: started by tests.servers, reached over TCP by a plain role, migrated, bootstrapped, stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from project.embedded.layout import PROJECT_ROOT
from project.embedded.valkey import is_port_free
from tests.project.embedded.waiting import wait_for
from tests.servers import Servers, main, run_to_its_end, serve

# As with the instances: one after the other, so that none picks another's port before it listens.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("embedded")]

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server: make test-servers")


def bare_pytest(folder: Path) -> list[str]:
    """Arguments for a pytest without Django that runs the folder's test_probe.py alone."""
    alone = ["-q", "-p", "no:cacheprovider", "-p", "no:django", "--noconftest", f"--rootdir={folder}"]
    return [*alone, str(folder / "test_probe.py")]


def manage(servers: Servers, var: Path, *arguments: str) -> str:
    """A management command of an instance that has nothing but these servers' addresses."""
    environment = {
        "PATH": os.environ["PATH"],
        "RECKONER_VAR": str(var),
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
    }
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("version", "broker"), [pytest.param("16", "redis", marks=needs_redis), ("18", "valkey")])
def test_they_answer_a_plain_role_over_tcp_and_are_gone_at_the_end(version: str, broker: str) -> None:
    with serve(version, broker) as servers:
        with psycopg.connect(servers.database_url) as connection:
            assert connection.info.server_version // 10_000 == int(version)
            assert connection.execute("SELECT inet_server_addr()::text").fetchone() == ("127.0.0.1/32",)
            [superuser] = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
            assert not superuser
        address = urlsplit(servers.database_url)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(servers.database_url.replace(str(address.password), "wrong"))
        with redis.Redis.from_url(servers.redis_url) as client:
            assert ("server_name" in client.info("server")) == (broker == "valkey")
    for url in (servers.database_url, servers.redis_url):
        port = urlsplit(url).port
        assert port and is_port_free("127.0.0.1", port)


@needs_redis
def test_an_instance_is_made_by_a_plain_role_on_postgresql_16_and_redis(tmp_path: Path) -> None:
    """On PostgreSQL 18 and Valkey by test_compose.py, with every process."""
    with serve("16", "redis") as servers:
        manage(servers, tmp_path, "migrate", "--no-input")
        made = json.loads(manage(servers, tmp_path, "bootstrap", "--no-demo", "--json"))
        assert made["workspace"] == "main" and made["one_time_password"]
        assert json.loads(manage(servers, tmp_path, "bootstrap", "--no-demo", "--json"))["one_time_password"] is None


@pytest.mark.parametrize("servers", ["15,redis", "16", "16,rabbitmq", ""])
def test_other_servers_are_refused_before_any_starts(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main([servers])
    assert refusal.value.code == 2
    assert "give one of 16,redis, 16,valkey, 18,redis, 18,valkey" in capsys.readouterr().err


def test_pytest_s_exit_code_is_ours() -> None:
    assert run_to_its_end([sys.executable, "-c", "raise SystemExit(57)"], dict(os.environ)) == 57


def test_pytest_gets_the_addresses_and_told_to_stop_it_is_ended_as_ctrl_c_does_and_then_the_servers(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_probe.py").write_text(
        "import os, pathlib, time\n"
        "HERE = pathlib.Path(__file__).parent\n"
        "def test_long():\n"
        "    try:\n"
        "        (HERE / 'begun.part').write_text(os.environ['DATABASE_URL'] + ' ' + os.environ['REDIS_URL'])\n"
        "        (HERE / 'begun.part').rename(HERE / 'begun')\n"
        "        time.sleep(600)\n"
        "    finally:\n"
        "        (HERE / 'tidied').touch()\n"
    )
    run = bare_pytest(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers", "18,valkey", "--", *run],
        cwd=PROJECT_ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    begun = tmp_path / "begun"
    wait_for(lambda: begun.exists() or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 128 + signal.SIGTERM
    assert (tmp_path / "tidied").exists()
    for url in begun.read_text().split():
        address = urlsplit(url)
        assert (address.scheme, address.hostname) in {("postgresql", "127.0.0.1"), ("redis", "127.0.0.1")}
        assert address.port and is_port_free("127.0.0.1", address.port)
