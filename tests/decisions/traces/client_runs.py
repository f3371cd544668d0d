"""Runs the programs of clients/ with their spans sent to the web process as `make run` starts it: Django's live server
takes no chunked bodies."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from tools.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "clients"


def run_traced(command: list[str | Path], *, url: str, token: str, folder: Path) -> str:
    """What the program says. It is told of the server as an app is, by OpenTelemetry's variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "RECKONER_"))}
    environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{token}",
        "OTEL_SERVICE_NAME": "weather-app",
        "TRACELOOP_HEADERS": f"Authorization=Bearer%20{token}",
        "TRACELOOP_METRICS_ENABLED": "false",
        "TRACELOOP_TELEMETRY": "false",
        "MLFLOW_TRACKING_URI": (folder / "mlruns").as_uri(),
        "NO_PROXY": "127.0.0.1,localhost",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@contextmanager
def running_web(folder: Path) -> Iterator[str]:
    """Its URL; at the tests' database."""
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": f"{server}/{connection.settings_dict['NAME']}",
    }
    port, log = free_port(), folder / "web.log"
    command = [sys.executable, "-m", "gunicorn", "-c", "python:project.web.server", "project.wsgi:application"]
    address = ["--bind", f"127.0.0.1:{port}", "--workers", "1", "--threads", "2"]
    with log.open("w") as output:
        process = subprocess.Popen([*command, *address], cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=20).status == 200:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
