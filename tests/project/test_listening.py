"""Servers listen on several sockets where the system keeps their queues short."""

from pathlib import Path

import pytest

from project.listening import count_listeners


@pytest.mark.parametrize(
    ("limit", "sockets"), [("4096\n", 1), ("256\n", 1), ("128\n", 2), ("8\n", 16), ("0\n", 16), ("", 1)]
)
def test_a_short_queue_is_made_up_for_by_more_sockets(tmp_path: Path, limit: str, sockets: int) -> None:
    path = tmp_path / "somaxconn"
    path.write_text(limit)
    assert count_listeners(path) == sockets


def test_one_socket_has_to_do_where_the_limit_is_not_known(tmp_path: Path) -> None:
    assert count_listeners(tmp_path / "none") == 1
