"""A server that speaks what we use of Ollama's API, and refuses what Ollama would.

Digests are calculated again, and a model is made of files that are there, with known fields only.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gguf import GGUFReader

FIELDS = {"model", "stream", "files", "template", "system", "parameters"}
PARAMETERS = {"num_ctx", "num_thread", "temperature", "num_predict"}


class OllamaStub:
    """`models`: by name what it was made with, and the number of tensors of its file. `refuses`: why it makes none, ""
    where it does."""

    refuses = ""

    def __init__(self, folder: Path) -> None:
        self.folder, self.models = folder, dict[str, dict[str, Any]]()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length", 0)))
                found = b""
                while size := int(self.rfile.readline(), 16):
                    found += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return found

            def answer(self, status: int, told: Any) -> None:
                data = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                body = self.body()
                if self.path.startswith("/api/blobs/"):
                    self.answer(*stub.keep(self.path.removeprefix("/api/blobs/sha256:"), body))
                else:
                    action = {"/api/create": stub.create, "/api/copy": stub.copy}[self.path]
                    self.answer(*action(json.loads(body)))

            def do_GET(self) -> None:
                told = [
                    {"model": name, "digest": one["digest"], "size": one["size"]} for name, one in stub.models.items()
                ]
                self.answer(200, {"models": told})

            def do_DELETE(self) -> None:
                found = stub.models.pop(json.loads(self.body())["model"], None)
                self.answer(*(200, {}) if found else (404, {"error": "model not found"}))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def keep(self, digest: str, body: bytes) -> tuple[int, Any]:
        if hashlib.sha256(body).hexdigest() != digest:
            return 400, {"error": "digest mismatch"}
        (self.folder / digest).write_bytes(body)
        return 201, {}

    def create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        if self.refuses:
            return 500, {"error": self.refuses}
        if unknown := set(asked) - FIELDS or set(asked.get("parameters", {})) - PARAMETERS:
            return 400, {"error": f"unknown: {sorted(unknown)}"}
        (digest,) = asked["files"].values()
        path = self.folder / digest.removeprefix("sha256:")
        if not path.is_file():
            return 400, {"error": "blob not found"}
        tensors = len(GGUFReader(path).tensors)
        self.models[asked["model"]] = {**asked, "digest": digest, "size": path.stat().st_size, "tensors": tensors}
        return 200, {"status": "success"}

    def copy(self, asked: dict[str, Any]) -> tuple[int, Any]:
        if asked["source"] not in self.models:
            return 404, {"error": f"model {asked['source']!r} not found"}
        self.models[asked["destination"]] = self.models[asked["source"]]
        return 200, {}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
