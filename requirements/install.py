"""Installs the requirement files beside this one into the environment whose Python runs it; the Makefile calls it.

    .venv/bin/python requirements/install.py [--text] [--s3] [--export] [--dev] [--torch auto|cpu|cuda]
    .venv/vllm/bin/python requirements/install.py --vllm

uv does it, several times faster than pip. pip fetches uv, and does it all where uv cannot be had or does not get
through. What pip is told about package indexes holds for uv too. Only the standard library is there.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
STDERR = 2
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

# To download, and on the disk afterwards; measured on Linux, x86_64.
SIZES = {"cpu": "about 0.4 GB to download, 1.4 GB on the disk", "cuda": "about 2.9 GB to download, 5.2 GB on the disk"}

# Left uncompiled: what is only read or is machine code already (mypy), tests, and of languages, lexers, clients,
# compilers of models and architectures what is seldom asked for. It is more than half of all files.
UNCOMPILED = (
    r"/(tests?|testing|pandas|sympy|networkx|mpmath|setuptools|pip)/"
    r"|/(mypyc?|faker/providers|pygments/lexers|schemathesis|openai|graphql|prompt_toolkit|openpyxl|ruamel)/"
    r"|/(torchgen|torch/_inductor|onnxscript|onnx_ir|onnxruntime/(transformers|quantization|tools))/"
    r"|/transformers/models/(?!auto/|qwen|llama|gemma|gpt2/|__init__)"
)

# pip's setting → uv's variable, and what stands between two values there.
SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def translate(listed: str, environment: Mapping[str, str]) -> dict[str, str]:
    """uv's variables for what `pip config list` printed; one that is set already stays as it is.

    >>> translate("global.find-links='/wheels'\\n:env:.timeout='60'", {})
    {'UV_FIND_LINKS': '/wheels', 'UV_HTTP_TIMEOUT': '60'}
    """
    found = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", listed, flags=re.MULTILINE)
    order = ("global", "install", ":env:")
    pip = {name: ast.literal_eval(value) for _, name, value in sorted(found, key=lambda row: order.index(row[0]))}
    return {
        variable: between.join(pip[name].split())
        for name, (variable, between) in SETTINGS.items()
        if name in pip and variable not in environment
    }


def has_nvidia_gpu() -> bool:
    """Whether NVIDIA's driver is loaded, or its own program finds a GPU (as under Windows' Linux)."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    found = subprocess.run([program, "--list-gpus"], capture_output=True, text=True, check=False)  # noqa: S603
    return found.returncode == 0 and "GPU" in found.stdout


@dataclass(frozen=True)
class Installer:
    """`command` takes the arguments that pip and uv share; `backends`: ways to get at torch's build without CUDA."""

    command: tuple[str, ...]
    backends: tuple[tuple[str, ...], ...]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, quiet: bool = False) -> bool:
        done = subprocess.run(  # noqa: S603 - our own arguments
            [*self.command, *arguments],
            cwd=ROOT,
            env=os.environ | self.environment,
            # What `make run ARGS=--once` prints has standard output for itself.
            stdout=subprocess.DEVNULL if quiet else STDERR,
            stderr=subprocess.DEVNULL if quiet else None,
            check=False,
        )
        return done.returncode == 0

    def find_cpu_torch(self) -> tuple[str, ...] | None:
        """The options with which torch's build without CUDA is found; None where it cannot be had."""
        for options in self.backends:
            wanted = ("--dry-run", "--no-deps", "--require-hashes", "-r", str(HERE / "cpu.txt"), *options)
            if self.run(*wanted, quiet=True):
                return options
        return None

    def install(self, torch: str, *, layers: Sequence[str]) -> bool:
        options: tuple[str, ...] | None = ()
        if torch == "cpu":
            options = self.find_cpu_torch()
        if options is None:
            say("torch's build without CUDA is out of reach: neither pip's find-links nor an index has it.")
            say("The package index's own build comes with CUDA. Ctrl-C stops it.")
            torch, options = "cuda", ()
        files = ["base.txt", f"{torch}.txt", *(f"{layer}.txt" for layer in layers)]
        say(f"Installing with {'CUDA' if torch == 'cuda' else 'torch for the CPU'}: {SIZES[torch]}.")
        named = [part for file in files for part in ("-r", str(HERE / file))]
        client = ("--no-deps", "--no-build-isolation", "-e", str(ROOT / "clients" / "python"))
        return self.run("--require-hashes", *named, *options) and self.run(*client, quiet=True)

    def install_vllm(self) -> bool:
        """Into an environment of its own. What is left out of vllm.txt is not missed (lock.py)."""
        options = self.find_cpu_torch()
        if options is None:
            say("vLLM needs torch's build without CUDA, which is out of reach: neither find-links nor an index has it.")
            return False
        say("Installing vLLM for the CPU: about 0.5 GB to download, 3 GB on the disk.")
        files = ("-r", str(HERE / "cpu.txt"), "-r", str(HERE / "vllm.txt"))
        return self.run("--require-hashes", "--no-deps", *files, *options)


def compile_bytecode() -> None:
    """Once, here, on every core: else each of nine processes does it at each start where Python may not keep it."""
    say("Compiling what was installed.")
    site = sysconfig.get_path("purelib")
    command = [sys.executable, "-m", "compileall", "-q", "-q", "-j", "0", "-x", UNCOMPILED, site]
    subprocess.run(command, check=False)  # noqa: S603 - a module written for a newer Python stays as it is


def choose_cache(environment: Mapping[str, str]) -> dict[str, str]:
    """Where uv keeps what it fetched: its usual place, or this environment where the home cannot be written to."""
    if "UV_CACHE_DIR" in environment:
        return {}
    try:
        (Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv").mkdir(parents=True, exist_ok=True)
    except OSError:
        return {"UV_CACHE_DIR": str(Path(sys.prefix) / ".uv-cache")}
    return {}


def fetch_uv() -> Installer | None:
    """uv in this environment, told what pip is told; None where pip cannot fetch it."""
    fetched = subprocess.run(  # noqa: S603 - our own arguments
        [*PIP, "install", "--quiet", "--require-hashes", "-r", str(HERE / "uv.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode != 0:
        say(f"uv cannot be fetched, pip does it, in some minutes. ({fetched.stderr.strip().splitlines()[-1:]})")
        return None
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    # With hashes it does not matter which index a file came from.
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable]
    command += ["--index-strategy", "unsafe-best-match"]
    if re.search(r"^(global|install|:env:)\.no-index='(1|true|yes|on)'", listed, flags=re.MULTILINE | re.IGNORECASE):
        command.append("--no-index")
    environment = translate(listed, os.environ) | choose_cache(os.environ)
    return Installer(tuple(command), ((), ("--torch-backend", "cpu")), environment)


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs what Reckoner needs into this Python's environment.")
    parser.add_argument("--text", action="store_true", help="what training of free text needs as well")
    parser.add_argument("--s3", action="store_true", help="what artifacts at a server that speaks S3 need as well")
    parser.add_argument("--export", action="store_true", help="what models as files for other programs need as well")
    parser.add_argument("--dev", action="store_true", help="what tests and checks need as well, all of these included")
    parser.add_argument("--vllm", action="store_true", help="vLLM for the CPU, and nothing else")
    parser.add_argument("--torch", choices=["auto", "cpu", "cuda"], default="auto", help="auto: CUDA where a GPU is")
    parser.add_argument("--installer", choices=["uv", "pip"], default="uv", help="pip: slower, where uv is not wanted")
    options = parser.parse_args()
    torch = ("cuda" if has_nvidia_gpu() else "cpu") if options.torch == "auto" else options.torch
    layers = [layer for layer in ("text", "s3", "export", "dev") if options.dev or getattr(options, layer)]
    started = time.monotonic()
    uv = fetch_uv() if options.installer == "uv" else None
    if options.vllm:
        return 0 if uv is not None and uv.install_vllm() else 1
    done = uv is not None and uv.install(torch, layers=layers)
    if not done:
        if uv is not None:
            say("uv did not get through; pip tries, in some minutes.")
        done = Installer((*PIP, "install", "--no-compile"), ((),)).install(torch, layers=layers)
    if done:
        compile_bytecode()
    say(f"{'installed' if done else 'not installed'} after {time.monotonic() - started:.0f} s")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
