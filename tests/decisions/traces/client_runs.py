"""Runs the programs of clients/ with their spans sent to the live server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

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
