"""docker-compose.yml and .env.example: the processes of `manage.py up`, different by environment alone."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import yaml
from psycopg import sql
from redis.backoff import NoBackoff
from redis.retry import Retry

from project.embedded.layout import PROJECT_ROOT, Layout
from project.embedded.postgres import DURABLE, Postgres
from project.embedded.programs import Plan, Program, plan_instance
from project.embedded.testing import SESSION
from project.embedded.valkey import find_server, pick_port
from project.placeholders import PLACEHOLDER, refuse_placeholders
from tests.project.embedded.waiting import wait_for
from tests.servers import Servers, start_broker
from tests.template_database import ensure_template
from tools import model_server
from tools.compose import (
    COMPOSE_FILE,
    ENV_EXAMPLE,
    OURS,
    check_schema,
    fill_in,
    find_clients,
    find_differences,
    lay_out,
    load_compose,
    read_env,
    read_environments,
    rows,
)
from tools.model_server import running_model_server
from tools.warm import stand_in

COMPOSE = load_compose()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLES = read_env()
VAR = Path("/var/lib/reckoner")
ONCE = {"check", "migrate", "bootstrap"}
AT_ONCE = Retry(NoBackoff(), 0)  # a client would try again for seconds, also with a wrong password
PROGRAMS = {"web", "gateway", "worker", "trainer", "exporter", "beat", "model-server"}
SECRETS = {
    "POSTGRES_PASSWORD", "RECKONER_VALKEY_PASSWORD", "RECKONER_SECRET_KEY", "RECKONER_API_KEY_PEPPER",
    "RECKONER_MODEL_SERVER_TOKEN",
}  # fmt: skip


def words(command: str | list[str]) -> list[str]:
    return command if isinstance(command, list) else shlex.split(fill_in(command, VARIABLES))


# The file and its environment


@pytest.mark.slow
def test_it_follows_the_compose_specification(tmp_path: Path) -> None:
    done = check_schema()
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(COMPOSE_FILE.read_text().replace("healthcheck:", "healthchek:", 1))
    assert check_schema(wrong).returncode == 1


@pytest.fixture
def rendered(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The file as Docker's own program reads it."""
    clients = find_clients()
    if not clients:
        pytest.skip("neither `docker compose` nor docker-compose is here")
    done = clients[0].config(lay_out(tmp_path))
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


def test_docker_compose_takes_it_and_reads_the_same_environment(rendered: dict[str, Any]) -> None:
    assert set(rendered) == set(SERVICES)
    assert find_differences({name: service["environment"] for name, service in rendered.items()}, VARIABLES) == []
    assert {name for name, service in rendered.items() if service["image"] == "reckoner:cuda"} == {
        "trainer-gpu",
        "model-server-gpu",
    }


def test_its_environment_is_that_of_env_example_and_a_difference_would_be_seen() -> None:
    environments = read_environments(COMPOSE, VARIABLES)
    assert find_differences(environments, VARIABLES) == []
    changed = environments | {"valkey": {"RECKONER_VALKEY_PASSWORD": "other", "NEW": "1"}}
    del changed["beat"]
    assert find_differences(changed, VARIABLES) == [
        "valkey: RECKONER_VALKEY_PASSWORD=other",
        "valkey: NEW=1",
        "beat is missing",
    ]
    del environments["web"]["REDIS_URL"]
    assert find_differences(environments, VARIABLES) == ["web: no REDIS_URL"]


def test_every_row_of_its_report_passes() -> None:
    assert [row for row in rows() if not row.passed] == []


def test_the_model_server_and_the_databases_know_no_key() -> None:
    environments = read_environments(COMPOSE, VARIABLES)
    for name in set(SERVICES) - set(OURS):
        assert not {"DATABASE_URL", "RECKONER_SECRET_KEY", "RECKONER_API_KEY_PEPPER"} & set(environments[name]), name


SHOW_SETTINGS = """
import json, pathlib
from project import settings
plain = lambda value: str(value) if isinstance(value, pathlib.Path) else type(value).__name__
print(json.dumps({name: getattr(settings, name) for name in dir(settings) if name.isupper()}, default=plain))
"""


def show_settings(var: Path, **environment: str) -> dict[str, Any]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", SHOW_SETTINGS],
        cwd=PROJECT_ROOT,
        env={**kept, **environment, "RECKONER_VAR": str(var)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_settings_differ_from_the_embedded_default_in_addresses_and_secrets_alone(tmp_path: Path) -> None:
    plain = show_settings(tmp_path)
    given = show_settings(tmp_path, **read_env(make_env(tmp_path)))
    assert set(plain) == set(given)
    assert {name for name in plain if plain[name] != given[name]} == {
        "SECRET_KEY", "API_KEY_PEPPER", "DATABASE_URL", "DATABASES", "REDIS_URL", "CELERY_BROKER_URL",
        "MODEL_SERVER_URL", "MODEL_SERVER_TOKEN", "CACHES",
    }  # fmt: skip
    database = given["DATABASES"]["default"]
    assert (database["HOST"], database["NAME"], database["USER"]) == ("postgres", "reckoner", "reckoner")


# Secrets


def make_env(folder: Path) -> Path:
    """`make env` in a folder that holds what it needs."""
    for name in ("Makefile", ".env.example"):
        shutil.copy(PROJECT_ROOT / name, folder / name)
    subprocess.run(["make", "--silent", "env"], cwd=folder, check=True, capture_output=True)
    return folder / ".env"


def test_make_env_writes_secrets_of_its_own_and_never_over_others(tmp_path: Path) -> None:
    path = make_env(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(found.name for found in tmp_path.iterdir()) == [".env", ".env.example", "Makefile"]
    made = read_env(path)
    assert list(made) == list(VARIABLES)
    assert {name for name in made if made[name] != VARIABLES[name]} == SECRETS | {"DATABASE_URL", "REDIS_URL"}
    secrets = [made[name] for name in SECRETS]
    assert len(set(secrets)) == len(SECRETS)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{64}", secret) for secret in secrets)
    assert made["POSTGRES_PASSWORD"] in made["DATABASE_URL"]
    assert made["RECKONER_VALKEY_PASSWORD"] in made["REDIS_URL"]
    before = path.read_bytes()
    again = subprocess.run(["make", "--silent", "env"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert ".env is there already" in again.stderr
    assert path.read_bytes() == before


def run_check(var: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The service `check`, as a process."""
    python, *arguments = words(SERVICES["check"]["command"])
    assert python == "python"
    kept = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT_ROOT,
        env={**kept, **environment, "RECKONER_VAR": str(var)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_example_s_placeholders_are_refused_by_name_before_anything_is_made(tmp_path: Path) -> None:
    var = tmp_path / "var"
    done = run_check(var, VARIABLES)
    assert done.returncode == 1
    message = done.stderr.strip().splitlines()[-1]
    assert "still what .env.example says" in message
    assert "make env" in message
    assert set(re.findall(r"[A-Z_]{5,}", message)) == SECRETS | {"DATABASE_URL", "REDIS_URL"}
    assert not var.exists()
    made = read_env(make_env(tmp_path))
    assert run_check(var, made).returncode == 0
    for name in SECRETS:
        with pytest.raises(ValueError, match=f"^{name}: still"):
            refuse_placeholders(made | {name: VARIABLES[name]})


def test_nothing_starts_before_the_check_has_passed() -> None:
    def before(name: str) -> set[str]:
        direct = SERVICES[name].get("depends_on") or {}
        return set(direct) | {far for near in direct for far in before(near)}

    for name in set(SERVICES) - {"check"}:
        assert "check" in before(name), name
        for other, how in SERVICES[name]["depends_on"].items():
            assert how["condition"] == ("service_completed_successfully" if other in ONCE else "service_healthy")
    assert [line for line in COMPOSE_FILE.read_text().splitlines() if PLACEHOLDER in line] == []


def test_env_example_is_what_git_keeps_and_env_is_not() -> None:
    assert ENV_EXAMPLE.exists()
    assert ".env" in (PROJECT_ROOT / ".gitignore").read_text().splitlines()


# The same processes


def make_plan() -> Plan:
    ports = {"port": 8000, "gateway_port": 8020, "model_port": 8100}
    return plan_instance(Layout(VAR), host="0.0.0.0", **ports, with_demo=True, once=False)


def programs() -> dict[str, Program]:
    return {program.name: program for program in make_plan().programs}


def in_container(command: tuple[str, ...]) -> list[str]:
    return ["python" if word == sys.executable else word for word in command]


@pytest.mark.parametrize("name", sorted({*PROGRAMS, "trainer-gpu", "model-server-gpu"}))
def test_a_service_runs_what_its_program_does_and_gets_as_long_to_stop(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECKONER_ARTIFACTS", raising=False)
    program = programs()[name.removesuffix("-gpu").replace("-", "")]
    command = in_container(program.command)
    if program.name == "modelserver":  # the web process is in another container
        command[command.index("127.0.0.1")] = "0.0.0.0"
    assert words(SERVICES[name]["command"]) == command
    assert SERVICES[name]["stop_grace_period"] == f"{program.stop_seconds}s"
    assert program.stop_signal == "TERM" and "stop_signal" not in SERVICES[name]


def test_only_the_worker_that_runs_code_may_make_namespaces() -> None:
    opened = {name for name, service in SERVICES.items() if "security_opt" in service}
    measuring = {name for name, service in SERVICES.items() if "measuring" in str(service.get("command"))}
    assert opened == measuring == {"worker"}


def test_every_program_is_a_service_and_the_steps_are_the_plan_s() -> None:
    assert {name.replace("-", "") for name in PROGRAMS} == set(programs())
    assert set(SERVICES) == ONCE | PROGRAMS | {"postgres", "valkey", "trainer-gpu", "model-server-gpu"}
    plan = make_plan()
    assert plan.prepare and "--migrate" in plan.prepare  # in one process what has a container each
    prepare = [word for word in in_container(plan.prepare) if word != "--migrate"]
    assert words(SERVICES["bootstrap"]["command"]) == prepare
    assert words(SERVICES["migrate"]["command"]) == [*prepare[:-1], "migrate", "--no-input"]


def test_postgresql_has_the_embedded_one_s_settings() -> None:
    def settings(command: list[str]) -> set[str]:
        return {value for flag, value in itertools.pairwise(command) if flag == "-c"}

    embedded = settings(Postgres(VAR, VAR).command())
    # Where it listens is the image's; fsync and synchronous_commit are on anyway.
    outside = {"listen_addresses", "unix_socket_directories", "unix_socket_permissions", "logging_collector"}
    expected = {value for value in embedded if value.split("=")[0] not in outside}
    assert settings(words(SERVICES["postgres"]["command"])) == expected - {"fsync=on", "synchronous_commit=on"}
    assert set(DURABLE) <= embedded
    assert SERVICES["postgres"]["image"] == "postgres:18"
    assert VARIABLES["DATABASE_URL"] == (
        f"postgresql://{VARIABLES['POSTGRES_USER']}:{VARIABLES['POSTGRES_PASSWORD']}@postgres:5432"
        f"/{VARIABLES['POSTGRES_DB']}"
    )


def test_every_service_that_stays_is_looked_at_and_every_volume_has_a_name() -> None:
    for name, service in SERVICES.items():
        assert ("healthcheck" in service) == (name not in ONCE), name
        assert service["restart"] == ("no" if name in ONCE else "unless-stopped"), name
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in COMPOSE["volumes"], name
    for name in ("web", "gateway", "worker", "trainer", "trainer-gpu", "model-server", "model-server-gpu"):
        assert SERVICES[name]["volumes"] == [f"instance:{VARIABLES['RECKONER_VAR']}"]
    assert VARIABLES["RECKONER_VAR"] == str(VAR)


def test_the_gpu_profile_changes_places_with_the_cpu_s() -> None:
    for name in ("trainer", "model-server"):
        cpu, gpu = SERVICES[name], SERVICES[f"{name}-gpu"]
        assert (cpu["profiles"], gpu["profiles"]) == (["cpu"], ["gpu"])
        assert cpu["build"]["args"] == {"TORCH": "cpu"} and gpu["build"]["args"] == {"TORCH": "cuda"}
        [device] = gpu["deploy"]["resources"]["reservations"]["devices"]
        assert device["capabilities"] == ["gpu"]
        changed = {"image", "build", "deploy", "profiles", "networks"}
        assert {key: value for key, value in gpu.items() if key not in changed} == {
            key: value for key, value in cpu.items() if key not in changed
        }
    assert SERVICES["model-server-gpu"]["networks"]["default"]["aliases"] == ["model-server"]
    assert VARIABLES["COMPOSE_PROFILES"] == "cpu"


# What can run here without containers


@pytest.mark.slow
def test_valkey_starts_from_its_input_with_the_password_and_shows_it_to_no_list_of_processes(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "valkey-server").symlink_to(find_server())
    port = pick_port(tmp_path / "port")
    shell, flag, script = SERVICES["valkey"]["command"]
    script = script.replace("$$", "$").replace('save ""', f'port {port}\nbind 127.0.0.1\nsave ""')
    server = subprocess.Popen(
        [shell, flag, script],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "RECKONER_VALKEY_PASSWORD": "pass-word_1"},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: not _refuses(port))
        with redis.Redis(port=port, retry=AT_ONCE) as nobody, pytest.raises(redis.AuthenticationError):
            nobody.ping()
        with redis.Redis(port=port, password="pass-word_1") as client:
            assert client.ping()
            assert client.config_get("save", "appendonly", "maxmemory-policy") == {
                "save": "", "appendonly": "no", "maxmemory-policy": "noeviction",
            }  # fmt: skip
        # exec: the shell is gone, so the container's stop signal reaches the server.
        line = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"valkey-server" in line and b"pass-word" not in line
    finally:
        server.terminate()
        assert server.wait(30) == 0


def _refuses(port: int) -> bool:
    try:
        with redis.Redis(port=port, retry=AT_ONCE) as client:
            client.ping()
    except redis.AuthenticationError:
        return False
    except redis.ConnectionError:
        return True
    return False


def run_health_check(service: str, port: int) -> int:
    """The service's own command against a server on another port."""
    kind, python, *arguments = SERVICES[service]["healthcheck"]["test"]
    assert (kind, python) == ("CMD", "python")
    [container_port] = set(re.findall(r"127\.0\.0\.1:(\d+)", arguments[-1]))
    code = arguments[-1].replace(f":{container_port}", f":{port}")
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("https", [False, True])
def test_the_web_s_health_check_sees_a_ready_server_and_a_missing_one(
    https: bool, live_server: Any, settings: Any, tmp_path: Path
) -> None:
    settings.ALLOWED_HOSTS = VARIABLES["RECKONER_ALLOWED_HOSTS"].split(",")
    settings.SECURE_SSL_REDIRECT = https
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if https else None
    assert run_health_check("web", int(live_server.url.rsplit(":", 1)[1])) == 0
    assert run_health_check("web", pick_port(tmp_path / "port")) == 1


@pytest.mark.slow
def test_the_model_server_s_health_check_sees_a_ready_server_and_a_missing_one(tmp_path: Path) -> None:
    with running_model_server(tmp_path / "artifacts", "token") as address:
        assert run_health_check("model-server", int(address.rsplit(":", 1)[1])) == 0
    assert run_health_check("model-server", pick_port(tmp_path / "port")) == 1


class Rehearsal:
    """The services as plain processes: their own commands and environment, with other addresses and another folder.

    Those that load Django are forked from one process that has (tools/warm.py); what they are called and given is
    theirs. `manage.py up` starts the same programs from nothing in test_ingest_survives_kills.py.
    """

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self.var, self.warm = folder / "var", folder / "warm"
        self.warm.mkdir()
        for name in ("artifacts", "runs", "run"):  # as the image makes them
            (self.var / name).mkdir(parents=True)
        self.ports = {port: str(pick_port(folder / port)) for port in ("8000", "8020", "8100")}
        self.variables = read_env(make_env(folder)) | {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "RECKONER_MODEL_SERVER_URL": f"http://127.0.0.1:{self.ports['8100']}",
            "RECKONER_VAR": str(self.var),
            "HF_HOME": str(self.var / "huggingface"),
            "BOOTSTRAP_FLAGS": "--no-demo",
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def translate(self, text: str) -> str:
        text = fill_in(text, self.variables).replace("$$", "$").replace(str(VAR), str(self.var))
        forked = lambda found: f"{shlex.join(stand_in(self.warm, found[1]))} "  # noqa: E731
        text = re.sub(r"^python -m (project|gunicorn|celery) ", forked, text)
        text = re.sub(r"^python\b", sys.executable, text).replace("0.0.0.0", "127.0.0.1")
        return re.sub(r"\b(8000|8020|8100)\b", lambda found: self.ports[found[1]], text)

    def environment(self, name: str) -> dict[str, str]:
        # A container has nothing else of the host's.
        return {"PATH": os.environ["PATH"]} | read_environments(COMPOSE, self.variables)[name]

    def run(self, name: str) -> str:
        command = shlex.split(self.translate(SERVICES[name]["command"]))
        done = subprocess.run(
            command, cwd=PROJECT_ROOT, env=self.environment(name), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, name: str) -> None:
        command = shlex.split(self.translate(SERVICES[name]["command"]))
        if command[1:3] == ["-m", "training.engine.server"]:  # without seconds of imports
            command[:3] = model_server.SERVER
        with (self.var / f"{name}.log").open("w") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=PROJECT_ROOT, env=self.environment(name), stdout=log, stderr=log, start_new_session=True
            )

    def is_healthy(self, name: str) -> bool:
        assert self.running[name].poll() is None, (self.var / f"{name}.log").read_text()
        test = SERVICES[name]["healthcheck"]["test"]
        words = ["sh", "-c", self.translate(test)] if isinstance(test, str) else [self.translate(w) for w in test[1:]]
        done = subprocess.run(
            words, cwd=PROJECT_ROOT, env=self.environment(name), capture_output=True, check=False, timeout=60
        )
        return done.returncode == 0

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(30)
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        shutil.rmtree(self.warm)  # the process to fork from ends


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """A broker, and a database on the session's server: where that is the tests' own, `migrate` finds it migrated."""
    server_url, name = os.environ["DATABASE_URL"].rpartition("/")[0], f"test_compose_{os.getpid()}"
    template = ensure_template(server_url) if SESSION in os.environ else "template1"
    running: list[subprocess.Popen[bytes]] = []
    with psycopg.connect(f"{server_url}/postgres", autocommit=True) as server:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        server.execute(drop)
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        server.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield Servers(f"{server_url}/{name}", start_broker(tmp_path, find_server(), running))
        finally:
            for broker in running:
                broker.terminate()
                broker.wait(30)
            server.execute(drop)


@pytest.mark.slow
@pytest.mark.xdist_group("embedded")
def test_the_services_run_as_processes_and_are_healthy(servers: Servers, tmp_path: Path) -> None:
    rehearsal = Rehearsal(tmp_path, servers.database_url, servers.redis_url)
    try:
        rehearsal.run("check")
        rehearsal.run("migrate")
        for name in sorted(PROGRAMS):
            rehearsal.start(name)
        # The costly questions last.
        for name in ("web", "gateway", "model-server", "beat", "worker", "trainer", "exporter"):
            wait_for(lambda name=name: rehearsal.is_healthy(name), seconds=120)
        assert "one-time password" in rehearsal.run("bootstrap")
        assert "one-time password" not in rehearsal.run("bootstrap")
    finally:
        rehearsal.stop()
    assert {name: process.returncode for name, process in rehearsal.running.items()} == dict.fromkeys(PROGRAMS, 0)
