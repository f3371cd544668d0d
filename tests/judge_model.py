"""A small judge model behind HTTP: it scores a text by the share of its words that are different ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any, ClassVar

from training.engine.environments.local_http import LocalHandler, serving

PROMPT = "Score this text.\n\nTask: {task}\nWork: {work}"
KEY = "word-of-the-judge"


def score_of(work: str) -> float:
    words = work.lower().split()
    return len(set(words)) / len(words)


class Handler(LocalHandler):
    """Of a work with `unscored` in it the judge writes something else than a number."""

    unscored: ClassVar[str] = "storm"
    asked: ClassVar[list[dict[str, Any]]]

    def get(self) -> None:
        self.answer(404, {})

    def post(self) -> None:
        body = json.loads(self.read_body())
        self.asked.append({"path": self.path, "key": self.headers.get("Authorization"), "model": body["model"]})
        work = body["messages"][0]["content"].partition("\nWork: ")[2]
        says = "A fine text!" if self.unscored in work else json.dumps({"score": score_of(work)})
        self.answer(200, {"choices": [{"message": {"role": "assistant", "content": says}}]})


@contextmanager
def judge_model() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its URL, and what it was asked."""
    handler = type("Asked", (Handler,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", handler.asked
