"""OpenStack Swift with its S3 interface, whole, in one process: `.venv/swift/bin/python tools/swift_server.py FOLDER`.

It prints its port, and ends when its standard input does. It runs in an environment of its own
(requirements/swift.txt); `tools.object_store` starts it. One disk, one replica; a user `test:tester`, key `testing`.
"""

import eventlet

eventlet.monkey_patch()

import sys
from pathlib import Path

from eventlet import tpool, wsgi
from paste.deploy import loadapp
from swift.common.ring import RingBuilder
from swift.common.utils import set_swift_dir

BACKENDS = ("account", "container", "object")
BACKEND = """
[DEFAULT]
devices = {root}/drives
mount_check = false
swift_dir = {etc}
[pipeline:main]
pipeline = app
[app:app]
use = egg:swift#{name}
fallocate_reserve = 0
"""
PROXY = """
[DEFAULT]
swift_dir = {etc}
[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
"""
FILTERS = ("catch_errors", "gatekeeper", "listing_formats", "s3api", "slo")


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    etc = root / "etc"
    etc.mkdir(parents=True)
    (root / "drives" / "disk").mkdir(parents=True)
    (etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n")
    set_swift_dir(str(etc))
    sockets = {name: eventlet.listen(("127.0.0.1", 0)) for name in (*BACKENDS, "proxy")}
    for name in BACKENDS:
        (etc / f"{name}.conf").write_text(BACKEND.format(root=root, etc=etc, name=name))
        _save_ring(etc / f"{name}.ring.gz", sockets[name].getsockname()[1])
    filters = "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in FILTERS)
    (etc / "proxy.conf").write_text(PROXY.format(etc=etc) + filters)
    pool = eventlet.GreenPool(1000)
    for name, socket in sockets.items():
        app = loadapp(f"config:{etc}/{name}.conf", name="main")
        eventlet.spawn(wsgi.server, socket, app, custom_pool=pool, log_output=False)
    print(sockets["proxy"].getsockname()[1], flush=True)
    tpool.execute(sys.stdin.read)


def _save_ring(path: Path, port: int) -> None:
    """One partition on the one disk."""
    builder = RingBuilder(0, 1, 0)
    builder.add_dev(
        {
            "id": 0,
            "region": 1,
            "zone": 1,
            "weight": 1.0,
            "device": "disk",
            "meta": "",
            "ip": "127.0.0.1",
            "port": port,
            "replication_ip": "127.0.0.1",
            "replication_port": port,
        }
    )
    builder.rebalance(seed="1")
    builder.get_ring().save(str(path))


if __name__ == "__main__":
    main()
