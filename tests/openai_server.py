"""A small OpenAI-compatible server that answers as it is told, in a thread. The fixture `serve` starts some."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

USAGE = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}


class OpenAIServer:
    """`answers`: what the next requests get, (status, body) or (status, body, headers); afterwards `message` is said,
    by default with `pick` as its content, or as long as there are `messages`, the next one of those. `asked` holds the
    bodies. `held`: requests wait while it is not set.

    A stream says the words of the content one by one, and then the calls; `after`, where it is set, is called with the
    number of the word that comes next. `left` is set when somebody went away before the end.

    `adapters`: those that it was asked to load, as vLLM is, by name with their folders; None: it knows no such path."""

    def __init__(self):
        self.answers, self.asked, self.headers = deque(), [], []
        self.pick, self.models = "travel", ["gpt-4o-mini"]
        self.message, self.messages, self.after, self.adapters = {}, deque(), None, None
        self.held, self.left = threading.Event(), threading.Event()
        self.held.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                data = [{"id": name} for name in server.models]
                data += [{"id": name, "root": place} for name, place in (server.adapters or {}).items()]
                self.reply(200, {"data": data})

            def do_POST(self):
                server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                if self.path.endswith("_lora_adapter"):
                    self.reply(*server.keep_adapter(self.path, server.asked[-1]))
                    return
                server.headers.append(dict(self.headers))
                server.held.wait(10)
                if server.answers:
                    self.reply(*server.answers.popleft())
                elif server.asked[-1].get("stream"):
                    try:
                        self.stream()
                    except OSError:
                        server.left.set()
                else:
                    message = {"role": "assistant"} | server.next_message()
                    reason = "tool_calls" if message.get("tool_calls") else "stop"
                    choices = [{"index": 0, "message": message, "finish_reason": reason}]
                    self.reply(200, {"choices": choices, "usage": USAGE})

            def stream(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                message = server.next_message()
                calls = message.get("tool_calls") or []
                for number, word in enumerate((message["content"] or "").split(" ") if message["content"] else ()):
                    if server.after is not None:
                        server.after(number)
                    self.say({"content": word if number == 0 else f" {word}"})
                for index, call in enumerate(calls):
                    half = len(call["function"]["arguments"]) // 2
                    begun = call["function"] | {"arguments": call["function"]["arguments"][:half]}
                    self.say({"tool_calls": [call | {"index": index, "function": begun}]})
                    rest = call["function"]["arguments"][half:]
                    self.say({"tool_calls": [{"index": index, "function": {"arguments": rest}}]})
                self.say({}, "tool_calls" if calls else "stop")
                self.event({"choices": [], "usage": USAGE})
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def say(self, delta, reason=None):
                self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

            def event(self, body):
                self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
                self.wfile.flush()

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

    def next_message(self):
        return {"content": self.pick} | (self.messages.popleft() if self.messages else self.message)

    def keep_adapter(self, path, asked):
        """Status and body."""
        if self.adapters is None:
            return 404, {"detail": "Not Found"}
        if path.endswith("/unload_lora_adapter"):
            del self.adapters[asked["lora_name"]]
        elif (Path(asked["lora_path"]) / "adapter_config.json").is_file():
            self.adapters[asked["lora_name"]] = asked["lora_path"]
        else:
            return 404, {"error": {"message": f"The lora adapter at {asked['lora_path']} cannot be found."}}
        return 200, b"Success"
