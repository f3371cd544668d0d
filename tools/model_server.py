"""A real model server process for tests that ask models."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tools.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
START_TRIES, PAUSE_SECONDS = 4500, 0.02
SERVER: tuple[str, ...] = (sys.executable, "-m", "training.engine.server")


@contextlib.contextmanager
def running_model_server(artifacts: Path, token: str, port: int | None = None) -> Iterator[str]:
    """Serves the artifacts under this root; yields the address once it answers. One torch thread."""
    artifacts.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    command = [*SERVER, "--port", str(port), "--artifacts", str(artifacts)]
    process = subprocess.Popen(
        [*command, "--threads", "1"],
        cwd=ROOT,
        env=os.environ | {"RECKONER_MODEL_SERVER_TOKEN": token, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_answers(process, f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _wait_until_it_answers(process: subprocess.Popen[bytes], address: str) -> None:
    with httpx.Client(base_url=address, trust_env=False, verify=False) as client:  # certificates take long to read
        for _ in range(START_TRIES):
            assert process.poll() is None, "the model server ended"
            with contextlib.suppress(httpx.TransportError):
                if client.get("/readyz").status_code == 200:
                    return
            time.sleep(PAUSE_SECONDS)
    raise AssertionError("the model server did not start")
