"""What `make run` and `make test` install: requirements/*.txt, and how requirements/install.py goes about it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from project.embedded.layout import PROJECT_ROOT
from requirements import install
from requirements.lock import read_blocks

FOLDER = PROJECT_ROOT / "requirements"
LAYERS = ("base", "cpu", "cuda", "text", "s3", "export", "dev", "uv", "swift", "vllm")
CPU, CUDA = ("base", "cpu", "text", "s3", "export", "dev"), ("base", "cuda", "text", "s3", "export", "dev")


def entries(*layers: str) -> dict[str, list[Requirement]]:
    """Package → what is pinned of it; more than one where platforms differ."""
    found: dict[str, list[Requirement]] = {}
    for layer in layers:
        for name, text in read_blocks((FOLDER / f"{layer}.txt").read_text()).items():
            lines = [line.rstrip(" \\") for line in text.splitlines() if not line.startswith(" ")]
            found.setdefault(name, []).extend(Requirement(line) for line in lines)
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_every_line_is_pinned_and_hashed_and_names_no_host(layer: str) -> None:
    text = (FOLDER / f"{layer}.txt").read_text()
    assert "://" not in text and not re.search(r"^\s*--?(?!hash=sha256:)\w", text, flags=re.MULTILINE)
    code = [line for line in text.splitlines() if not line.startswith("#")]
    heads = [line for line in code if not line.startswith(" ")]
    assert [line for line in heads if not re.match(r"[a-z0-9-]+={2,3}\S+( ;|.*\\$)", line)] == []
    blocks = read_blocks(text)
    assert sum(block.count("\n") for block in blocks.values()) == len(code)
    assert [name for name, block in blocks.items() if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", block)] == []


def test_cuda_comes_with_its_own_file_only_and_both_have_the_same_torch() -> None:
    of_cuda = re.compile(r"nvidia-|cuda-|triton$")
    assert [name for name in entries(*CPU) if of_cuda.match(name)] == []
    assert len([name for name in entries("cuda") if of_cuda.match(name)]) > 10
    [torch] = entries("cuda")["torch"]
    version = str(torch.specifier).removeprefix("===")  # "==" would be content with a build without CUDA
    assert version[0].isdigit()
    assert {str(pin.specifier) for pin in entries("cpu")["torch"]} == {f"=={version}+cpu", f"=={version}"}


@pytest.mark.parametrize("layers", [CPU, CUDA], ids=["cpu", "cuda"])
def test_the_files_hold_what_the_projects_ask_for(layers: tuple[str, ...]) -> None:
    pins = entries(*layers)
    for file, extras in (
        ("pyproject.toml", ("s3", "examples", "text", "export", "dev")),
        ("clients/python/pyproject.toml", ()),
    ):
        project = tomllib.loads((PROJECT_ROOT / file).read_text())["project"]
        optional = project.get("optional-dependencies", {})
        assert set(optional) == set(extras)
        for line in [*project["dependencies"], *(line for extra in extras for line in optional[extra])]:
            requirement = Requirement(line)
            found = pins[canonicalize_name(requirement.name)]  # `make lock` writes what is missing here
            versions = [next(iter(pin.specifier)).version for pin in found]
            assert all(requirement.specifier.contains(version) for version in versions), line
            running = line not in optional.get("dev", [])
            assert not running or canonicalize_name(requirement.name) not in entries("dev"), line


def test_uv_is_told_what_pip_is_told_and_keeps_what_it_was_told_itself() -> None:
    listed = (
        ":env:.find-links='/nearer'\nglobal.find-links='/farther'\nglobal.extra-index-url='https://a https://b'\n"
        "install.index-url='https://c'\nglobal.cert='/ca.pem'\nglobal.cache-dir='/x'\nglobal.timeout='60'\n"
    )
    assert install.translate(listed, {"UV_HTTP_TIMEOUT": "9"}) == {
        "UV_DEFAULT_INDEX": "https://c",
        "UV_INDEX": "https://a https://b",
        "UV_FIND_LINKS": "/nearer",
        "SSL_CERT_FILE": "/ca.pem",
    }
    assert install.translate("", {}) == {}


def test_uv_keeps_its_cache_in_the_environment_where_the_home_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()  # in the place of a folder, which root could write to
    assert install.choose_cache({"XDG_CACHE_HOME": str(tmp_path)}) == {}
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "a file")}
    assert install.choose_cache(nowhere) == {"UV_CACHE_DIR": f"{sys.prefix}/.uv-cache"}
    assert install.choose_cache(nowhere | {"UV_CACHE_DIR": "/own"}) == {}


# In the place of pip and uv: notes what it is asked for, and finds torch's build without CUDA only as FINDS says.
STAND_IN = """
import pathlib, sys
asked = sys.argv[2:]
with pathlib.Path(sys.argv[1]).open("a") as notes:
    notes.write(" ".join(pathlib.Path(word).name for word in asked) + "\\n")
sys.exit("--dry-run" in asked and not FINDS(asked))
"""


@pytest.mark.parametrize(
    ("finds", "installed"),
    [
        ("lambda asked: True", "base.txt -r cpu.txt -r text.txt -r s3.txt -r export.txt -r dev.txt"),
        (
            "lambda asked: '--torch-backend' in asked",
            "base.txt -r cpu.txt -r text.txt -r s3.txt -r export.txt -r dev.txt --torch-backend cpu",
        ),
        ("lambda asked: False", "base.txt -r cuda.txt -r text.txt -r s3.txt -r export.txt -r dev.txt"),
    ],
    ids=["find-links", "PyTorch's index", "nowhere"],
)
@pytest.mark.quick_cases(1)
def test_torch_without_cuda_is_taken_where_it_can_be_had_and_the_size_is_told_before(
    finds: str, installed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    command = (sys.executable, "-c", STAND_IN.replace("FINDS", f"({finds})"), str(notes))
    assert install.Installer(command, ((), ("--torch-backend", "cpu"))).install(
        "cpu", layers=("text", "s3", "export", "dev")
    )
    *tried, packages, _client = notes.read_text().splitlines()
    assert packages == f"--require-hashes -r {installed}" and all("--dry-run" in line for line in tried)
    told = capsys.readouterr().err
    assert install.SIZES["cpu" if "cpu.txt" in installed else "cuda"] in told
    assert ("comes with CUDA" in told) == ("cuda.txt" in installed)
