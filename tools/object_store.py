"""A real server that speaks S3, for tests and benchmarks: OpenStack Swift (tools/swift_server.py)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PYTHON = Path(sys.prefix) / "swift" / "bin" / "python"
SERVER = Path(__file__).with_name("swift_server.py")
BUCKET = "artifacts"


def find_swift() -> str:
    """Why there is none; empty where there is."""
    return "" if PYTHON.exists() else f"no OpenStack Swift in {PYTHON.parent.parent}: `make swift` installs it"


@contextlib.contextmanager
def running_swift(folder: Path) -> Iterator[dict[str, str]]:
    """Serves from this folder, which must not be there yet; yields the environment by which a client finds it."""
    process = subprocess.Popen(
        [str(PYTHON), "-W", "ignore", str(SERVER), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError("OpenStack Swift did not start")
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test:tester",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)


def make_bucket(environment: dict[str, str]) -> None:
    """The bucket BUCKET at that server."""
    import s3fs

    files = s3fs.S3FileSystem(
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        key=environment["AWS_ACCESS_KEY_ID"],
        secret=environment["AWS_SECRET_ACCESS_KEY"],
        skip_instance_cache=True,
    )
    files.mkdir(BUCKET)
