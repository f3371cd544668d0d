"""`make accept PART=wheel`: the wheel in an empty environment, by uv's tools, outside any checkout.

python -m benchmarks.accept.wheel [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from requirements.install import PIP, translate
from tools.instance import ROOT
from tools.report import Report, log


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def install(report: Report, wheel: Path, work: Path, environment: dict[str, str]) -> None:
    started = time.monotonic()
    command = [sys.executable, "-m", "uv", "tool", "install", "--python", sys.executable, str(wheel)]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    log(done.stderr[-500:])
    report.add("uv tool install exits", bound="0", figure=done.returncode, passed=done.returncode == 0)
    gigabytes = size(work / "tools") / 1e9
    report.add("  seconds", bound="", figure=round(time.monotonic() - started), passed=True)
    report.add("  GB on the disk", bound="<= 2 without CUDA", figure=f"{gigabytes:.1f}", passed=gigabytes <= 2)


def loop(report: Report, work: Path, environment: dict[str, str]) -> None:
    started = time.monotonic()
    command = [str(work / "bin" / "reckoner"), "up", "--once"]
    done = subprocess.run(command, cwd=work / "nowhere", env=environment, capture_output=True, text=True, check=False)
    log(done.stderr[-1500:])
    result = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
    # Whether the trained model wins is another acceptance's business; here the loop has to come to its end.
    ended = done.returncode == 0 and "scores" in result
    report.add("reckoner up --once ends with a result", bound="0", figure=done.returncode, passed=ended)
    report.add("  seconds", bound="", figure=round(time.monotonic() - started), passed=True)
    report.add(
        "  its data", bound="in the user's folder", figure=work / "home", passed=any((work / "home").rglob("artifacts"))
    )
    left = list((work / "nowhere").iterdir())
    report.add("  files where it was started", bound="0", figure=len(left), passed=not left)


def pages(report: Report, work: Path, environment: dict[str, str]) -> None:
    """A second start: a page with its style sheet, hashed and compressed; and a key from another shell."""
    program = str(work / "bin" / "reckoner")
    with (work / "up.log").open("w") as errors:
        up = subprocess.Popen(
            [program, "up", "--json", "--no-demo"],
            cwd=work / "nowhere", env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    try:
        assert up.stdout is not None
        url = next(json.loads(line)["url"] for line in up.stdout if line.startswith("{"))
        page = urllib.request.urlopen(f"{url}/log-in").read().decode()
        sheet = next(part.split('"')[0] for part in page.split('href="') if "/css/base." in part[:60])
        request = urllib.request.Request(f"{url}{sheet}", headers={"Accept-Encoding": "gzip"})
        headers = urllib.request.urlopen(request).headers
        kept = "immutable" in headers.get("Cache-Control", "") and headers.get("Content-Encoding") == "gzip"
        report.add("a page's style sheet is hashed and compressed", bound="immutable, gzip", figure=sheet, passed=kept)
        command = [program, "create_key", "an-app", "--scope", "route:read"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        key = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        report.add("reckoner create_key exits", bound="0", figure=key.returncode, passed=key.returncode == 0)
        report.add("  seconds of CPU", bound="<= 1", figure=f"{seconds:.2f}", passed=seconds <= 1)
    finally:
        up.send_signal(signal.SIGTERM)
        report.add("stops in order", bound="0", figure=up.wait(120), passed=up.returncode == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder to work in, which stays")
    options = parser.parse_args()
    report = Report("wheel")
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True, stdout=sys.stderr)
    [wheel] = (ROOT / "dist").glob("reckoner_ledger-*.whl")
    report.add(
        "the wheel, MB", bound="<= 5", figure=f"{wheel.stat().st_size / 1e6:.2f}", passed=wheel.stat().st_size < 5e6
    )
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    with tempfile.TemporaryDirectory() as folder:
        work = options.keep or Path(folder)
        for name in ("home", "nowhere"):
            (work / name).mkdir(parents=True, exist_ok=True)
        own = {"HOME": str(work / "home"), "UV_TOOL_DIR": str(work / "tools"), "UV_TOOL_BIN_DIR": str(work / "bin")}
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RECKONER", "DJANGO", "XDG", "PYTHONDONTWRITE"))
        }
        environment = clean | translate(listed, clean) | own | {"UV_INDEX_STRATEGY": "unsafe-best-match"}
        install(report, wheel, work, environment)
        loop(report, work, environment)
        pages(report, work, environment)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
