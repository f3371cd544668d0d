"""The web's first process, which has loaded everything and forked the workers, is killed."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.project.embedded.waiting import wait_for
from tests.project.web.web_process import Web

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("embedded")]


class Reader:
    """Asks without a pause, over a new connection each time; `unanswered` are the faults it met."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answered, self.unanswered = 0, list[str]()

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
            try:
                connection.request("GET", "/livez")
                assert connection.getresponse().status == 200
            except (OSError, http.client.HTTPException) as error:
                self.unanswered.append(repr(error))
            else:
                self.answered += 1
            finally:
                connection.close()


def test_workers_without_their_first_process_answer_until_the_next_one_s_do(tmp_path: Path) -> None:
    web = Web(tmp_path)
    next_web, worker = None, None
    try:
        wait_for(web.lives)
        worker = wait_for(web.worker)
        with Reader(web.port) as reader:
            web.process.kill()
            web.process.wait()
            time.sleep(1.5)  # a worker looks for its first process every half second
            next_web = Web(tmp_path, port=web.port)
            wait_for(next_web.worker)
            worker.terminate()
            wait_for(lambda: not worker.is_running())
            answered = reader.answered
            wait_for(lambda: reader.answered > answered + 10)
        assert reader.unanswered == []
    finally:
        if worker is not None and worker.is_running():
            worker.kill()
        if next_web is not None:
            assert next_web.stop() == 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(web.process.pid, signal.SIGKILL)
