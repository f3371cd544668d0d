"""Task folders for an agent of OpenHands' SDK, a careless worker who does some of them, and a tiny base that has learnt
from what the worker did. benchmarks.outside_agents learns in it.

A task is a query of CLINC150 in note.txt: its domain, one of four, is to be written into folder.txt, and the folder's
own grader compares. The worker answers the SDK's calls in the place of a model: it reads the note, writes a folder, and
finishes. A tiny model cannot read the 15,000 characters of the SDK's system prompt and the tools, so its chat template
shows the first 40 characters of the system message alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.engine_runs import Query
from training.engine.environments.folders import GRADER, INSTRUCTION, WORKSPACE, read_task_folder
from training.engine.environments.local_http import LocalHandler, serving
from training.engine.environments.openhands import OpenHands
from training.engine.environments.outside import Endpoint
from training.engine.environments.tasks import Task
from training.engine.models.loading import Loaded, build_tiny, build_tokenizer, save
from training.engine.serving.chat_requests import READ_CHAT, chat_request_of
from training.engine.serving.tools import read_calls, written_out
from training.engine.spec.run_spec import TinyShape

FOLDERS = {"banking": "bank", "travel": "travel", "kitchen_and_dining": "kitchen", "auto_and_commute": "car"}
"""CLINC150's domain → what is to be written."""
TOLD = f"Read note.txt and write its folder into folder.txt: {', '.join(FOLDERS.values())}."
GRADER_TEXT = """
import json, pathlib, sys

answer = pathlib.Path(sys.argv[1], "folder.txt")
print(json.dumps({"score": float(answer.is_file() and answer.read_text(errors="replace").strip() == %r)}))
"""
SYSTEM_SHOWN = 40
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{{ message['content'][:" + str(SYSTEM_SHOWN) + "] if message['role'] == 'system' else message['content'] }}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
STEPS = 4
Messages = Sequence[Mapping[str, Any]]


def write_folder(place: Path, query: Query) -> Task:
    """The query as a task folder at `place`."""
    (place / WORKSPACE).mkdir(parents=True)
    (place / WORKSPACE / "note.txt").write_text(query.text + "\n", encoding="utf-8")
    (place / INSTRUCTION).write_text(TOLD, encoding="utf-8")
    (place / GRADER).write_text(GRADER_TEXT % FOLDERS[query.domain], encoding="utf-8")
    task = read_task_folder(place)
    return Task(task.id, task.environment, task.text, {**task.facts, "max_steps": STEPS}, domain=query.domain)


class Worker(ThreadingHTTPServer):
    """Answers as a model would that knows the tasks: the key of a call is the folder to write. `seen` holds, by key and
    number of the episode, the messages of its last call and the answer to them, as a chat template gets them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: dict[str, Messages] = {}

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answers(LocalHandler):
    server: Worker
    most_bytes = 8 << 20

    def get(self) -> None:
        self.answer(404, {"error": {"message": "only chats are answered"}})

    def post(self) -> None:
        request = chat_request_of(READ_CHAT.decode(self.read_body()))
        assert request.toolbox is not None
        key = self.headers["Authorization"].removeprefix("Bearer ")
        calls = (
            ("terminal", {"command": "cat note.txt"}),
            ("terminal", {"command": f"echo {key.partition('/')[0]} > folder.txt"}),
            ("finish", {"message": "Done."}),
        )
        name, arguments = calls[sum(message["role"] == "assistant" for message in request.messages)]
        text = json.dumps([{"name": name, "arguments": arguments}])
        _, (call,) = read_calls(text, request.toolbox.tools)
        self.server.seen[key] = [
            *written_out(request.messages, request.toolbox.tools),
            {"role": "assistant", "content": text},
        ]
        function = {"name": call.name, "arguments": call.arguments}
        said = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        }
        choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        body = {"id": "worker", "object": "chat.completion", "created": 0, "model": "worker", "usage": usage}
        self.answer(200, body | {"choices": [choice]})


def demonstrate(agent: OpenHands, place: Path, queries: Sequence[Query], wrong: float, seed: int) -> list[Messages]:
    """The conversations, by the SDK itself, of a worker who writes just any folder in a share `wrong` of the tasks."""
    rng = random.Random(seed)
    worker = Worker()

    def act(number: int, query: Query, folder: str) -> None:
        task = write_folder(place / str(number), query)
        graded = agent.act(task, number, Endpoint(worker.base_url, f"{folder}/{number}"))
        if graded.success != (folder == FOLDERS[query.domain]):
            raise AssertionError(f"{task.id} was graded {graded.score} for {folder}, and is {query.domain}")

    written = [rng.choice(list(FOLDERS.values())) if rng.random() < wrong else FOLDERS[q.domain] for q in queries]
    with serving(worker), ThreadPoolExecutor(agent.at_once) as pool:
        list(pool.map(act, range(len(queries)), queries, written))
    return [worker.seen[f"{folder}/{number}"] for number, folder in enumerate(written)]


class Teaching(NamedTuple):
    """How a base is made."""

    shape: TinyShape
    epochs: int
    learning_rate: float = 4e-3
    batch_size: int = 16


def make_base(conversations: Sequence[Messages], how: Teaching, folder: Path, seed: int) -> list[float]:
    """Teaches a new tiny model to answer as in the conversations, and saves it. The mean loss of each epoch."""
    torch.manual_seed(seed)
    texts = [
        message["content"][:SYSTEM_SHOWN] if message["role"] == "system" else message["content"]
        for messages in conversations
        for message in messages
    ]
    tokenizer = build_tokenizer(texts, [], how.shape.vocabulary)
    tokenizer.chat_template = TEMPLATE
    model = build_tiny(how.shape, tokenizer)
    rows = [_encode(tokenizer, messages) for messages in conversations]
    steps = -(-len(rows) // how.batch_size) * how.epochs
    optimiser = torch.optim.AdamW(model.parameters(), lr=how.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, how.learning_rate, total_steps=steps)
    rng, losses = random.Random(seed), []
    for _ in range(how.epochs):
        rng.shuffle(rows)
        total = 0.0
        for start in range(0, len(rows), how.batch_size):
            part = rows[start : start + how.batch_size]
            ids = torch.nn.utils.rnn.pad_sequence([row[0] for row in part], batch_first=True)
            labels = torch.nn.utils.rnn.pad_sequence([row[1] for row in part], batch_first=True, padding_value=-100)
            loss = model(input_ids=ids, labels=labels).loss  # padding is behind, and what is behind is never read
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(part)
        losses.append(total / len(rows))
    save(Loaded(model.eval(), tokenizer), folder)
    return losses


def _encode(tokenizer: Any, messages: Messages) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids of a conversation, and the same as labels where the assistant speaks."""
    ids, labels = list[int](), list[int]()
    for message in messages:
        text: str = tokenizer.apply_chat_template([message], tokenize=False)
        head = f"<|{message['role']}|>"
        for piece, taught in ((head, False), (text.removeprefix(head), message["role"] == "assistant")):
            found = tokenizer(piece, add_special_tokens=False)["input_ids"]
            ids += found
            labels += found if taught else [-100] * len(found)
    return torch.tensor(ids), torch.tensor(labels)
