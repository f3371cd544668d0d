"""llama.cpp's own OpenAI-compatible server, in a process of its own, on a model that transformers has saved.

    python -m tools.llama_server MODEL.gguf NAME [PORT]

prints its address and serves until its input ends. For tests and benchmarks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


class LlamaServer:
    """Serves the file under `name` from when it is made. `process` may be stopped or killed; `url` ends in /v1."""

    def __init__(self, model: Path, name: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.llama_server", str(model), name, str(port)],
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.origin = self.process.stdout.readline().strip()
        self.url = f"{self.origin}/v1"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def main(model: str, name: str, port: str = "0") -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = model, [name]
    params.n_ctx, params.n_parallel, params.port = 2048, 4, int(port)
    params.warmup = params.cache_prompt = False
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
