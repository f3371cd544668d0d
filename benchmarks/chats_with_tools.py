"""A text agent with tools, taught by its own chats of two turns: the share of right calls on held-out chats before and
after.

    python -m benchmarks.chats_with_tools [--model FOLDER] [--rows N] [--heldout N] [--epochs N] [--rate R] [--lora]
                                          [--threads N] [--quick]

The customer says in the first turn which article it is, and in the second what is wanted, in words that no chat to
learn from has about that article: the right call needs both, and the tools on offer. In a real instance the champion of
a text agent is an outside model, a stub that calls a wrong tool in half of the chats. Each chat goes through the
gateway, from a customer of its own; a person confirms the right calls and corrects the wrong ones. What the ledger's
datasets of labels hold is learnt from (`sft`) and, of customers who teach nothing, measured on. `--model` is a folder
with a causal language model in safetensors, such as the Gemma 3 270M that `benchmarks.real_base` fetches into
var/real-base/gemma-3-270m (Google's Gemma Terms of Use); by default a tiny model is made, whose start knows nothing. A
call is right where its tool and its arguments are, by value. Prints the shares, their difference with its paired 95 %
interval, and one JSON object as the last line; passes where the interval lies above 0. `--quick` learns from fewer
chats.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suggestions import ROOT
from models_registry.statistics.intervals import clustered_mean, paired_difference
from tools.admin import Admin
from tools.instance import Instance
from tools.ports import free_port
from tools.report import Report, log

AGENT, RIGHT = "desk", 0.5
AT_ONCE = 25
ARTICLES = "kettle lamp desk chair radio clock mirror basket blanket printer camera guitar".split()  # noqa: SIM905
WISHES = {
    "refund": ("I want my money back.", "Please pay me back.", "Can I be refunded?", "Return the payment to me."),
    "replace": ("Send me a new one.", "I would like another one.", "Please exchange it.", "Can it be replaced?"),
    "cancel": ("I do not need it any more.", "Please stop the order.", "Call it off.", "Do not send it at all."),
    "track": ("Where is it now?", "When does it come?", "Has it been sent yet?", "Why is it so late?"),
}
PARAMETERS = {"type": "object", "properties": {"article": {"type": "string"}}, "required": ["article"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in WISHES]
SYSTEM = "You serve the customers of a shop. Call the tool that fits."
LIMITS = {"max_prompt_tokens": 128, "samples": 0, "checkpoint_every_seconds": 300}
LARGE_TOKENS, TINY_TOKENS = 24, 48
"""Of a call at most: a tiny model spells its words."""


class Chat(NamedTuple):
    """`right` and `called`: the tool that is right, and the one that the outside model calls."""

    article: str
    wish: str
    right: str
    called: str

    @property
    def messages(self) -> list[dict[str, str]]:
        return [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"Hello, I ordered a {self.article} last week."},
            {"role": "assistant", "content": "Thank you. What can I do for you?"},
            {"role": "user", "content": self.wish},
        ]

    @property
    def verdict(self) -> dict[str, Any]:
        """A person's verdict on the call, as feedback takes it."""
        if self.called == self.right:
            return {"metric": "verdict", "value": "confirmed"}
        correction = [{"name": self.right, "arguments": {"article": self.article}}]
        return {"metric": "verdict", "value": "corrected", "correction": correction}


def make_chats(seed: int) -> list[Chat]:
    """Every article with every wording, in random order."""
    rng = random.Random(f"chats/{seed}")
    cases = [(article, wish, name) for article, (name, said) in product(ARTICLES, WISHES.items()) for wish in said]
    rng.shuffle(cases)
    wrong = {name: [other for other in WISHES if other != name] for name in WISHES}
    return [Chat(*case, case[2] if rng.random() < RIGHT else rng.choice(wrong[case[2]])) for case in cases]


@contextmanager
def outside_model(chats: Sequence[Chat]) -> Iterator[str]:
    """The address of a server that calls in each chat what the chat says that it calls."""
    calls = {json.dumps(chat.messages): (chat.called, json.dumps({"article": chat.article})) for chat in chats}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({"data": [{"id": "outside"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, arguments = calls[json.dumps(asked["messages"])]
            call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            self.reply({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})

        def reply(self, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def train(folder: Path, method: str, base: dict[str, Any], rows: bytes, heldout: bytes, **more: Any) -> Path:
    """Runs the engine in a process of its own. Raises CalledProcessError."""
    folder.mkdir()
    for name, content in (("train", rows), ("heldout", heldout)):
        (folder / f"{name}.jsonl").write_bytes(content)
    data = {"train": "train.jsonl", "heldout": "heldout.jsonl", "rows": "text", "heldout_rows": "text"}
    spec = {"run_id": folder.name, "method": method, "base": base, "data": data, "evaluate": {"batch_size": 16}}
    (folder / "spec.json").write_text(json.dumps(spec | LIMITS | more))
    subprocess.run([sys.executable, "-m", "training.engine", str(folder)], check=True, cwd=ROOT)
    return folder / "attempts" / "1"


def read_correct(attempt: Path, model: str) -> list[bool]:
    """Reads whether each held-out chat was answered right, in the order of the file."""
    lines = map(json.loads, (attempt / "predictions.jsonl").read_text().splitlines())
    return [bool(line["correct"]) for line in lines if line["model"] == model]


class Desk:
    """The agent of an instance, and its customers."""

    def __init__(self, instance: Instance, backend: str) -> None:
        self.admin = Admin(instance)
        self.gateway = f"{instance.services()['GATEWAY_URL']}/v1/chat/completions"
        self.admin.call("POST", "/agents", {"slug": AGENT, "name": "Desk", "action_space": "text"})
        made = self.admin.call("POST", "/backends", {"name": "outside", "url": f"{backend}/v1"})
        remote = {"model": AGENT, "remote_name": "outside", "backend": made["id"]}
        self.admin.call("POST", "/remote-versions", remote)

    def serve(self, chats: Sequence[Chat], customer: str) -> None:
        """Each chat through the gateway, and a person's verdict on its answer."""
        verdicts = []
        for number, chat in enumerate(chats):
            body = {"model": AGENT, "messages": chat.messages, "tools": TOOLS, "user": f"{customer}-{number}"}
            answer = self.admin.http.post(self.gateway, json=body).raise_for_status().json()
            [call] = answer["choices"][0]["message"]["tool_calls"]
            assert call["function"]["name"] == chat.called, answer
            verdicts.append({"decision_id": answer["id"], **chat.verdict})
        for begin in range(0, len(verdicts), AT_ONCE):
            self.admin.call("POST", "/feedback", verdicts[begin : begin + AT_ONCE])

    def freeze(self, name: str, **filters: str) -> bytes:
        """The rows of a dataset of what people said."""
        asked = {"agent": AGENT, "name": name, "kind": "labelled", **filters}
        job = self.admin.call("POST", "/datasets", asked)
        done = self.admin.follow(f"/datasets/freezings/{job['id']}", until="succeeded", seconds=600)
        return self.admin.http.get(f"/datasets/{done['dataset']}/rows").raise_for_status().content


def serve_chats(place: Path, heldout: Sequence[Chat], taught: Sequence[Chat]) -> tuple[bytes, bytes]:
    """Runs an instance that serves the chats, and returns its rows to learn from and those to be measured on."""
    with outside_model([*heldout, *taught]) as backend:
        instance = Instance(
            place,
            RECKONER_BACKEND_URLS=backend,
            RECKONER_KEY_REQUESTS_A_MINUTE="0",
            RECKONER_MODEL_SERVER_URL="http://127.0.0.1:9",  # nothing is served from here
        )
        try:
            instance.start("--no-demo", "--port", str(free_port()), "--gateway-port", str(free_port()))
            desk = Desk(instance, backend)
            desk.serve(heldout, "heldout")
            then = datetime.now(UTC).isoformat()
            desk.serve(taught, "taught")
            return desk.freeze("taught", since=then), desk.freeze("held out", until=then)
        finally:
            instance.stop()


def make_tiny(folder: Path, rows: bytes, heldout: bytes) -> dict[str, str]:
    """A model that knows nothing but the words."""
    log("making a tiny model, which knows nothing")
    tiny = {"tiny": {"vocabulary": 500, "hidden": 64, "max_positions": 1024}}
    once = {"learning_rate": 1e-5, "epochs": 1, "batch_size": 16}
    few, first = (b"".join(part.splitlines(keepends=True)[:count]) for part, count in ((rows, 16), (heldout, 1)))
    more = {"optimiser": once, "max_completion_tokens": TINY_TOKENS}
    return {"path": str(train(folder, "pretrain", tiny, few, first, **more) / "model")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--heldout", type=int, default=60)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--lora", action="store_true", help="train an adapter, not every weight but the embeddings")
    parser.add_argument("--threads", type=int, help="of the engine; by default as many as there are cores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    chats = make_chats(options.seed)
    heldout = chats[: 24 if options.quick else options.heldout]
    taught = chats[len(heldout) :][: 96 if options.quick else options.rows]
    large = options.model is not None
    optimiser = {
        "learning_rate": options.rate or (1e-4 if large else 5e-3),
        "epochs": options.epochs or (2 if large else 12),
        "batch_size": 4 if large else 8,  # in little memory
    }
    tokens = LARGE_TOKENS if large else TINY_TOKENS
    more = {"optimiser": optimiser, "threads": options.threads, "max_completion_tokens": tokens}
    more |= {"lora": {"r": 16}} if options.lora else {"freeze_embeddings": large}
    report = Report("chats with tools")
    with tempfile.TemporaryDirectory(prefix="chats-") as folder:
        place = Path(folder)
        rows, measured = serve_chats(place / "instance", heldout, taught)
        for name, asked, said in (("learn from", taught, rows), ("be measured on", heldout, measured)):
            count = said.count(b"\n")
            report.add(f"rows to {name}", bound=f"{len(asked)}", figure=count, passed=count == len(asked))
        base = {"path": str(options.model.resolve())} if large else make_tiny(place / "tiny", rows, measured)
        attempt = train(place / "sft", "sft", base, rows, measured, **more)
        before, after = (read_correct(attempt, model) for model in ("base", "trained"))
        result = json.loads((attempt / "result.json").read_text())
    places = list(range(len(heldout)))
    for name, correct in (("before", before), ("after", after)):
        share = clustered_mean(correct, places).mean
        report.add(
            f"right calls of {len(heldout)} held-out chats, {name}", bound="-", figure=f"{share:.3f}", passed=True
        )
    gain = paired_difference(after, before, places)
    shown = f"{gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}]"
    report.add(f"gain by {len(taught)} chats", bound="interval above 0", figure=shown, passed=gain.low > 0)
    corrected = sum(chat.called != chat.right for chat in taught)
    return report.finish(
        optimiser=optimiser, corrected=corrected, seconds=result["seconds"], warnings=result["warnings"]
    )


if __name__ == "__main__":
    sys.exit(main())
