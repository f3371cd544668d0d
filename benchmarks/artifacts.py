"""The store of artifacts on the disk and at OpenStack Swift's S3 interface.

    python -m benchmarks.artifacts [--kills 200] [--quick]

F7: a writer is killed N times (200) over its named places, each proven hit; whatever is visible afterwards has the
right hashes, and what was left is collected. Then the rates of storing, fetching and verifying 200 MB. Prints a row per
point and one JSON object as the last line; exits 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from models_registry.store.errors import Corrupt
from models_registry.store.local import LocalStore
from models_registry.store.opening import Store, open_store
from tools.object_store import BUCKET, find_swift, make_bucket, running_swift
from tools.report import Report
from tools.store_kills import Place, put_and_die

MEGABYTES = 200
# Four uploads: three files and the manifest.
ON_DISK: tuple[Place, ...] = (
    *(("local", "assemble", side, 1) for side in ("before", "after")),
    *(("LocalStore", "adopt", side, 1) for side in ("before", "after")),
    *(("local", "sync", "before", call) for call in (1, 2, 3)),
)
AT_S3: tuple[Place, ...] = (
    *(("remote", "assemble", side, 1) for side in ("before", "after")),
    *(("RemoteStore", "_upload", side, call) for call in (1, 2, 3, 4) for side in ("before", "after")),
    *(("RemoteStore", "_check_uploaded", side, 1) for side in ("before", "after")),
    *(("LocalStore", "adopt", side, 1) for side in ("before", "after")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="of a writer, at each store (default 200)")
    parser.add_argument("--quick", action="store_true", help="twice at each place")
    options = parser.parse_args()
    report = Report("artifacts")
    if lacks := find_swift():
        sys.stderr.write(f"{lacks}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="reckoner-store-") as folder:
        base = Path(folder)
        disk = open_store(str(base / "disk"), cache=base, cache_bytes=1)
        kill(report, disk, ON_DISK, 2 * len(ON_DISK) if options.quick else options.kills, base)
        with running_swift(base / "swift") as environment:
            os.environ.update(environment)
            make_bucket(environment)
            remote = open_store(f"s3://{BUCKET}/kills", cache=base / "cache", cache_bytes=1 << 40)
            kill(report, remote, AT_S3, 2 * len(AT_S3) if options.quick else options.kills, base)
            measure(report, open_store(f"s3://{BUCKET}/rates", cache=base / "rates", cache_bytes=1 << 40), base)
    return report.finish()


def kill(report: Report, store: Store, places: tuple[Place, ...], kills: int, base: Path) -> None:
    local = isinstance(store, LocalStore)
    source = base / f"source-{local}"
    source.mkdir()
    for number in range(3):
        (source / f"file-{number}.bin").write_bytes(random.Random(number).randbytes(100_000))
    digest, hit, visible = store.put(source, kind="model").digest, Counter[Place](), 0
    corrupt: list[str] = []
    left = 0
    for number in range(kills):
        place = places[number % len(places)]
        store.remove(digest)
        if put_and_die(store, source, place):
            hit[place] += 1
        if store.has(digest):
            visible += 1
            try:
                store.verify(digest)
            except Corrupt as error:
                corrupt.append(f"{place}: {error}")
        list(store.remove_incoming(dt.datetime.now(dt.UTC) + dt.timedelta(days=1)))
        left += sum(store.remove_incoming(dt.datetime.now(dt.UTC) + dt.timedelta(days=1)))
    name = "disk" if local else "S3"
    report.add(
        f"F7, {name}: kills of a writer, and places met",
        bound=f"{kills}, each place",
        figure=f"{sum(hit.values())}; {len(hit)} of {len(places)}",
        passed=sum(hit.values()) == kills and len(hit) == len(places),
    )
    report.add(
        "  visible afterwards and whole; left after a collection",
        bound="all; nothing",
        figure=f"{visible - len(corrupt)} of {visible}{''.join(f'; {one}' for one in corrupt)}; {left}",
        passed=not corrupt and not left,
    )


def measure(report: Report, store: Store, base: Path) -> None:
    assert not isinstance(store, LocalStore)
    source = base / "large"
    source.mkdir()
    for number in range(2):
        (source / f"weights-{number}.bin").write_bytes(random.Random(number).randbytes(MEGABYTES * 500_000))
    digest = ""

    def store_it() -> None:
        nonlocal digest
        digest = store.put(source, kind="model").digest

    def fetch() -> None:
        store.cache.remove(digest)
        store.folder(digest)

    for what, work in (
        ("stored", store_it),
        ("verified at the server", lambda: store.verify(digest)),
        ("fetched into an empty cache", fetch),
        ("found in the cache, 1,000 times", lambda: [store.folder(digest) for _ in range(1000)]),
    ):
        started = time.perf_counter()
        work()
        figure = f"{time.perf_counter() - started:.2f} s"
        report.add(f"{MEGABYTES} MB {what}", bound="told", figure=figure, passed=True)


if __name__ == "__main__":
    sys.exit(main())
