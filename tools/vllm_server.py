"""vLLM's own OpenAI-compatible server on the CPU, in a process of its own and from an environment of its own.

    python -m tools.vllm_server FOLDER NAME

prints its address once it answers, and serves until its input ends. For tests: `make vllm` installs it
(requirements/vllm.txt). It takes adapters over its API, of a rank up to 16.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tools.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(sys.prefix) / "vllm" / "bin" / "python"
START_SECONDS = 600
ENVIRONMENT = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}
# Compiling would take longer than all that tests ask.
OPTIONS = ("--dtype", "float32", "--enforce-eager", "--max-num-seqs", "8", "--enable-lora", "--max-lora-rank", "16")
# One of the parsers that need no token of their own.
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "pythonic")
# A tiny model that may write blanks between the parts of JSON writes nothing else.
COMPACT = ("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}')


def find_vllm() -> str:
    """Why there is none; empty where there is."""
    folder = PYTHON.parents[1]
    return "" if (folder / "installed").exists() else f"no vLLM in {folder}: `make vllm` installs it"


class VllmServer:
    """Serves the folder that transformers has saved under `name` from when it is made. `url` ends in /v1, and `log` is
    a file that takes what it says."""

    def __init__(self, folder: Path, name: str, log: Path) -> None:
        with log.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tools.vllm_server", str(folder), name],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        assert self.process.stdout is not None
        self.origin, _, group = self.process.stdout.readline().strip().partition(" ")
        if not group:
            self.process.communicate()
            raise RuntimeError(f"vLLM did not start:\n{log.read_text()[-3000:]}")
        self._group = int(group)
        self.url = f"{self.origin}/v1"

    def send(self, number: signal.Signals) -> None:
        """A signal to every process of the server."""
        os.killpg(self._group, number)

    def stop(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def main(folder: str, name: str) -> int:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    # Not `vllm serve`, which asks for the version of a package that has another name on the CPU.
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", name]
    command += ["--host", "127.0.0.1", "--port", str(port), *OPTIONS, *TOOLS, *COMPACT]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    server = subprocess.Popen(
        command, env=kept | ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
    )

    def end_with_input() -> None:
        sys.stdin.read()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)

    threading.Thread(target=end_with_input, daemon=True).start()
    if not wait_until_it_answers(server, address):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        return 1
    sys.stdout.write(f"{address} {server.pid}\n")
    sys.stdout.flush()
    server.wait()
    return 0


def wait_until_it_answers(server: subprocess.Popen[bytes], address: str) -> bool:
    gives_up = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < gives_up:
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            return True
        time.sleep(0.5)
    return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
