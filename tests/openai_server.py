"""A small OpenAI-compatible server that answers as it is told, in a thread. The fixture `serve` starts some."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class OpenAIServer:
    """`answers`: what the next requests get, (status, body) or (status, body, headers); afterwards `pick` is chosen.
    `asked` holds the bodies. `held`: requests wait while it is not set."""

    def __init__(self):
        self.answers, self.asked, self.headers = deque(), [], []
        self.pick, self.models = "travel", ["gpt-4o-mini"]
        self.held = threading.Event()
        self.held.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, {"data": [{"id": name} for name in server.models]})

            def do_POST(self):
                server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                server.headers.append(dict(self.headers))
                server.held.wait(10)
                if server.answers:
                    self.reply(*server.answers.popleft())
                else:
                    choices = [{"message": {"role": "assistant", "content": server.pick}}]
                    self.reply(200, {"choices": choices, "usage": {"prompt_tokens": 20, "completion_tokens": 3}})

            def reply(self, status, body, headers=None):
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                """Says nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.origin = f"http://127.0.0.1:{self.http.server_port}"
        self.url = f"{self.origin}/v1"

    def stop(self):
        self.held.set()
        self.http.shutdown()
        self.http.server_close()
