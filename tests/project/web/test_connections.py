"""The web process as `make run` starts it, with fewer workers and threads than it meets slow clients."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.project.embedded.waiting import wait_for
from tests.project.web.web_process import Web, read_to_end

BUNDLE = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
POST = "POST /api/v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("embedded")]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    web = Web(tmp_path_factory.mktemp("web"))
    try:
        wait_for(web.lives)
        yield web
    finally:
        ended = web.stop()
    assert ended == 0


def test_more_slow_clients_than_threads_delay_nobody_and_are_cut_off(web: Web) -> None:
    asked = f"GET {BUNDLE} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as held:
        senders = [
            held.enter_context(web.connect(sent))
            for sent in ["", "GET /livez HTT", f"{POST}Content-Length: 100000\r\n\r\n["] * 4
        ]
        readers = [held.enter_context(web.connect(asked, receives=4096)) for _ in range(6)]
        assert web.lives()
        for connection in senders:
            assert read_to_end(connection) == b""
        for connection in readers:
            wait_for(lambda connection=connection: not writes(connection))
    cut = [line for line in web.lines() if line["event"] == "cut off a slow client"]
    assert len(cut) == 18


def writes(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"\r\n")
    except ConnectionError:
        return False
    return True


def test_a_byte_now_and_then_does_not_keep_a_connection(web: Web) -> None:
    with web.connect(f"{POST}Content-Length: 100000\r\n\r\n") as connection:

        def drips_to_its_end() -> bool:
            time.sleep(0.2)
            return not writes(connection)

        wait_for(drips_to_its_end)


def test_a_body_in_two_parts_is_taken_and_a_long_one_told_why_at_its_head(web: Web) -> None:
    with web.connect(f"{POST}Content-Length: 4\r\nConnection: close\r\n\r\n[]") as connection:
        time.sleep(0.3)
        connection.sendall(b"  ")
        assert b"401 Unauthorized" in read_to_end(connection)
    hidden = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    status, answer = web.ask(f"{POST}Content-Length: 40000000\r\n\r\n{hidden}")
    assert (status, answer["error"]["code"]) == (413, "too_large")


def test_a_chunked_body_is_taken_and_what_follows_it_is_the_next_request(web: Web) -> None:
    next_request = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with web.connect(f"{POST}Transfer-Encoding: chunked\r\n\r\n2;why=so\r\n[{{\r\n") as connection:
        time.sleep(0.2)
        connection.sendall(f"2\r\n}}]\r\n0\r\nX-Sum: 1\r\n\r\n{next_request}".encode())
        answers = read_to_end(connection)
    assert answers.count(b"HTTP/1.1 ") == 2 and b"401 Unauthorized" in answers and b'"ok"' in answers


def test_a_chunked_body_that_is_too_long_or_in_crumbs_is_refused_and_hides_no_request(web: Web) -> None:
    hidden = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    chunked = f"{POST}Transfer-Encoding: chunked\r\n\r\n"
    status, answer = web.ask(f"{chunked}{40_000_000:x}\r\n{hidden}")
    assert (status, answer["error"]["code"]) == (413, "too_large")
    crumbs = "1\r\n \r\n" * 2000
    status, answer = web.ask(f"{chunked}{crumbs}{hidden}")
    assert (status, answer["error"]["code"]) == (413, "too_large") and "64 bytes" in answer["error"]["message"]
    old = POST.replace("HTTP/1.1", "HTTP/1.0")
    status, answer = web.ask(f"{old}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n{hidden}")
    assert (status, answer["error"]["code"]) == (411, "length_required")
    for wrong in (
        f"{POST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"{chunked}2\r\n[]]\r\n0\r\n\r\n",
        f"{chunked}x\r\n",
        f"{chunked}{'1' * 2000}",
    ):
        with web.connect(wrong) as connection:
            assert b"400 Bad Request" in read_to_end(connection)


def test_a_head_that_cannot_be_read_is_told_so(web: Web) -> None:
    get = "GET /nothing HTTP/1.1\r\nHost: localhost\r\n"
    for wrong in (
        f"{get}X-Sum: 1\0\r\n\r\n",
        f"{get}X-Sum: 1\rX-Other: 2\r\n\r\n",
        "GET\0 / HTTP/1.1\r\n\r\n",
        f"{POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        f"{POST}Transfer-Encoding: \vchunked\r\n\r\n",
    ):
        with web.connect(wrong) as connection:
            assert read_to_end(connection).startswith(b"HTTP/1.0 400 Bad Request")
    assert not [line for line in web.lines() if line.get("level") == "error"]


def test_every_request_leaves_a_line_with_its_id_and_without_its_secrets(web: Web) -> None:
    key = "Authorization: Bearer hidden.hidden\r\nConnection: close\r\n\r\n"
    paths = ("/livez", "/nothing?token=hidden", "/api/v1/runs")
    gets = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n" for path in paths]
    for number, start in enumerate([*gets, f"{POST}Content-Length: 0\r\n"]):
        with web.connect(f"{start}X-Request-Id: mine-{number}\r\n{key}") as connection:
            read_to_end(connection)
    lines = [line for line in web.lines() if line.get("request_id", "").startswith("mine-")]
    told = {line["request_id"]: line["status"] for line in lines if line["event"] == "request"}
    assert told == {"mine-1": 404, "mine-2": 503, "mine-3": 503}  # no database is here; probes leave no line
    assert not [line for line in web.lines() if line["logger"].startswith("django") and "request_id" not in line]
    assert "hidden" not in web.log.read_text()


def test_a_worker_that_dies_again_and_again_is_replaced_and_takes_nothing_along(web: Web) -> None:
    for _ in range(3):
        dying = wait_for(web.worker)
        dying.kill()
        wait_for(lambda dying=dying: (new := web.worker()) and new.pid != dying.pid and web.lives())
    assert web.process.poll() is None
