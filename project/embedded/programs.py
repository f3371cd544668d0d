"""The table of programs that an instance runs besides its databases, and its supervisord.conf."""

import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from project.embedded.layout import PROJECT_ROOT, Layout

Group = Literal["services", "models", "web", "apps"]

# Started from the lowest, stopped from the highest; each group stops before the next one.
PRIORITIES: dict[Group, int] = {"services": 1, "models": 5, "web": 8, "apps": 10}
START_RETRIES = 20
# Of the libraries' static files, not those of pages that we do not have.
COLLECT = (
    "collectstatic",
    "--no-input",
    "--clear",
    "--verbosity",
    "0",
    "--ignore",
    "redoc",
    "--ignore",
    "rest_framework",
)


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised program.

    stop_signal asks it to end; after stop_seconds its process group gets SIGKILL. user: run as that user, when we
    are root. hands_over: when it is killed, its children serve until its next process has children of its own. Its log
    is var/log/<name>.log.
    """

    name: str
    command: tuple[str, ...]
    group: Group = "apps"
    stop_signal: str = "TERM"
    stop_seconds: int = 10
    user: str | None = None
    directory: Path = PROJECT_ROOT
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What `up` starts and in which order; see `plan_instance` for the real one, tests give smaller ones.

    prepare, collect, demo: command lines run when the databases answer, when static files have changed, and while the
    instance stays; None leaves that step out. resumes: `prepare` takes `--resume clean|crashed`. gateway_url: where
    OpenAI's clients go, "" where they cannot. Models start beside
    the databases, the web after those steps, and the rest when ready_url answers 200. environment is added to
    everybody's.
    """

    url: str
    programs: tuple[Program, ...]
    ready_url: str | None = None
    prepare: tuple[str, ...] | None = None
    collect: tuple[str, ...] | None = None
    demo: tuple[str, ...] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    resumes: bool = False
    gateway_url: str = ""


def plan_instance(
    layout: Layout, *, host: str, port: int, gateway_port: int, model_port: int | None, with_demo: bool, once: bool
) -> Plan:
    """The real plan. model_port None: a model server is given from outside (RECKONER_MODEL_SERVER_URL)."""
    reachable = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared, not bound
    origin = f"http://{f'[{reachable}]' if ':' in reachable else reachable}"
    url = f"{origin}:{port}"
    prepare = _manage("bootstrap", "--migrate", *([] if with_demo else ["--no-demo"]))
    own_copies = not (os.environ.get("RECKONER_STATIC_FINDERS") or os.environ.get("RECKONER_DEBUG"))
    environment = {"RECKONER_STATIC_FINDERS": "0"} if own_copies else {}
    if model_port is not None:
        environment["RECKONER_MODEL_SERVER_URL"] = f"http://127.0.0.1:{model_port}"
    demo = _manage("demo", "wait", *(["--json"] if once else [])) if with_demo or once else None
    return Plan(
        url=url,
        programs=tuple(_list_programs(layout, host, port, gateway_port, model_port)),
        ready_url=f"{url}/readyz",
        prepare=prepare,
        collect=_manage(*COLLECT) if own_copies else None,
        demo=demo,
        resumes=True,
        environment=environment,
        gateway_url=f"{origin}:{gateway_port}",
    )


def _manage(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "project", *arguments)


def _list_programs(layout: Layout, host: str, port: int, gateway_port: int, model_port: int | None) -> list[Program]:
    python = sys.executable
    celery = (python, "-m", "celery", "-A", "project")
    beat = (python, "-m", "celery", "-A", "project.beat", "beat")
    worker = (*celery, "worker", "--loglevel", "INFO", "--without-gossip", "--without-mingle")
    web = (python, "-m", "gunicorn", "-c", "python:project.web.server")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    gateway = (python, "-m", "project.gateway", "--host", host, "--port", str(gateway_port))
    programs = [
        Program("web", (*web, "--bind", address, "project.wsgi:application"), group="web", hands_over=True),
        Program("gateway", gateway, group="web", hands_over=True),
        # SIGTERM lets a job end within the time; what is cut off is taken up again when its lease has run out.
        Program("worker", (*worker, "-n", "worker@reckoner", "-Q", "default,measuring", "-c", "2")),
        # A run takes minutes, so it is not waited for: its engine leaves a checkpoint when its supervisor is gone.
        Program("trainer", (*worker, "-n", "trainer@reckoner", "-Q", "training", "-c", "1"), stop_seconds=5),
        # Waits for no run. It never uses a GPU.
        Program("exporter", (*worker, "-n", "exporter@reckoner", "-Q", "exports", "-c", "1"), stop_seconds=5),
        Program("beat", (*beat, "--pidfile=", "--schedule", str(layout.run / "beat-schedule"))),
    ]  # fmt: skip
    if model_port is not None:
        artifacts = os.environ.get("RECKONER_ARTIFACTS") or str(layout.var / "artifacts")
        server = (python, "-m", "training.engine.server", "--host", "127.0.0.1", "--port", str(model_port))
        places = ("--artifacts", artifacts, "--cache", str(layout.var / "artifact-cache"))
        programs.append(Program("modelserver", (*server, *places), group="models"))
    return programs


def render_config(layout: Layout, control: Path, programs: list[Program]) -> str:
    """supervisord.conf: nothing starts by itself, everything that has started is started again when it dies.

    The environment is inherited, never written here. Raises ValueError for a command line the format cannot hold.
    """
    lines = [
        "[supervisord]",
        "nodaemon=true",
        f"logfile={_escape(layout.log / 'supervisord.log')}",
        "logfile_maxbytes=10MB",
        "logfile_backups=3",
        f"pidfile={_escape(layout.run / 'supervisord.pid')}",
        f"childlogdir={_escape(layout.log)}",
        *(["user=root"] if os.geteuid() == 0 else []),
        "[unix_http_server]",
        f"file={_escape(control)}",
        "chmod=0700",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for group, priority in PRIORITIES.items():
        members = [program for program in programs if program.group == group]
        if members:
            names = ",".join(program.name for program in members)
            lines += [f"[group:{group}]", f"programs={names}", f"priority={priority}"]
        for program in members:
            lines += _render_program(layout, program)
    return "\n".join(lines) + "\n"


def _render_program(layout: Layout, program: Program) -> list[str]:
    return [
        f"[program:{program.name}]",
        f"command={_escape(shlex.join(program.command))}",
        f"directory={_escape(program.directory)}",
        *([f"user={program.user}"] if program.user else []),
        "autostart=false",
        "autorestart=true",
        "startsecs=1",
        f"startretries={START_RETRIES}",
        f"stopsignal={program.stop_signal}",
        f"stopwaitsecs={program.stop_seconds}",
        "killasgroup=true",
        "redirect_stderr=true",
        f"stdout_logfile={_escape(layout.log / f'{program.name}.log')}",
        "stdout_logfile_maxbytes=10MB",
        "stdout_logfile_backups=3",
    ]


def _escape(value: object) -> str:
    text = str(value)
    if "\n" in text or " ;" in text:
        raise ValueError(f"supervisord's configuration cannot hold {text!r}")
    return text.replace("%", "%%")
