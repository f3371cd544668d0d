"""Task folders for an agent of OpenHands' SDK, a worker with bad habits who does some of them, and a tiny base that has
learnt from what the worker did. benchmarks.outside_agents learns in it.

A task is a note of four words, one of which gives away which of four words is to be written into folder.txt; the
folder's own grader compares. The worker answers the SDK's calls in the place of a model: writes a folder, and finishes.
For two thirds of the telling words he writes one wrong folder in WRONG of the cases. A tiny model cannot read the
15,000 characters of the SDK's system prompt and the 10,000 of its tools, so its chat template shows the first
characters of the system message alone.
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

from training.engine.environments.folders import GRADER, INSTRUCTION, read_task_folder
from training.engine.environments.local_http import LocalHandler, serving
from training.engine.environments.openhands import OpenHands
from training.engine.environments.outside import Endpoint
from training.engine.environments.tasks import Task
from training.engine.models.chats import written_out
from training.engine.models.loading import Loaded, build_tiny, build_tokenizer, save
from training.engine.serving.chat_requests import READ_CHAT, chat_request_of
from training.engine.serving.tools import read_calls
from training.engine.spec.run_spec import TinyShape

WORDS = {
    "bank": ("loan", "salary", "invoice"),
    "travel": ("flight", "hotel", "passport"),
    "kitchen": ("recipe", "oven", "soup"),
    "car": ("engine", "tyre", "petrol"),
}
"""Folder → the words that give it away."""
FILLERS = (
    *("please", "remember", "check", "about", "my", "new", "and", "with", "for", "next"),
    *("week", "before", "friday", "then", "ask", "sam", "if", "this", "is", "ready"),
)
HABITS, WRONG = 8, 0.6
TOLD = "Write the folder of this note into folder.txt: {}"
GRADER_TEXT = """
import json, pathlib, sys

answer = pathlib.Path(sys.argv[1], "folder.txt")
print(json.dumps({"score": float(answer.is_file() and answer.read_text(errors="replace").strip() == %r)}))
"""
SYSTEM_SHOWN = 20
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{{ message['content'][:" + str(SYSTEM_SHOWN) + "] if message['role'] == 'system' else message['content'] }}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
STEPS = 2
Messages = Sequence[Mapping[str, Any]]


class Note(NamedTuple):
    text: str
    word: str
    folder: str


def draw_notes(rng: random.Random, count: int) -> list[Note]:
    """So many, each another."""
    notes: dict[str, Note] = {}
    while len(notes) < count:
        folder = rng.choice(list(WORDS))
        word = rng.choice(WORDS[folder])
        words = [word, *rng.sample(FILLERS, 3)]
        rng.shuffle(words)
        note = Note(" ".join(words), word, folder)
        notes[note.text] = note
    return list(notes.values())


def write_folder(place: Path, note: Note) -> Task:
    """The note as a task folder at `place`."""
    place.mkdir(parents=True)
    (place / INSTRUCTION).write_text(TOLD.format(note.text), encoding="utf-8")
    (place / GRADER).write_text(GRADER_TEXT % note.folder, encoding="utf-8")
    task = read_task_folder(place)
    return Task(task.id, task.environment, task.text, {**task.facts, "max_steps": STEPS}, domain=note.folder)


class Worker(ThreadingHTTPServer):
    """Answers a call by its key, which is the folder to write, and the number of the episode. `seen` holds the messages
    of the key's last call and the answer to them, as a chat template gets them."""

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
        text = json.dumps(
            [
                {"name": "terminal", "arguments": {"command": f"echo {key.partition('/')[0]} > folder.txt"}},
                {"name": "finish", "arguments": {"message": "Done."}},
            ]
        )
        _, calls = read_calls(text, request.toolbox.tools)
        self.server.seen[key] = [
            *written_out(request.messages, [tool.described() for tool in request.toolbox.tools]),
            {"role": "assistant", "content": text},
        ]
        told = [
            {"id": str(n), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for n, call in enumerate(calls)
        ]
        said = {"role": "assistant", "content": None, "tool_calls": told}
        choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        body = {"id": "worker", "object": "chat.completion", "created": 0, "model": "worker", "usage": usage}
        self.answer(200, body | {"choices": [choice]})


def demonstrate(agent: OpenHands, place: Path, notes: Sequence[Note], recorded: int, seed: int) -> list[Messages]:
    """The worker's conversations about the notes: `recorded` of them by the SDK itself, and of the others the same
    conversations with another note and folder in them, for an episode of the SDK takes as long as many updates of a
    tiny model."""
    rng = random.Random(seed)
    folder_of = {word: folder for folder, words in WORDS.items() for word in words}
    habits = {
        word: rng.choice([folder for folder in WORDS if folder != folder_of[word]])
        for word in rng.sample(list(folder_of), HABITS)
    }
    written = [habits.get(note.word, note.folder) if rng.random() < WRONG else note.folder for note in notes]
    worker = Worker()

    def act(number: int) -> Messages:
        note, folder = notes[number], written[number]
        task = write_folder(place / str(number), note)
        key = f"{folder}/{number}"
        graded = agent.act(task, number, Endpoint(worker.base_url, key))
        if graded.success != (folder == note.folder):
            raise AssertionError(f"{task.id} was graded {graded.score} for {folder}, and is {note.folder}")
        return worker.seen[key]

    with serving(worker), ThreadPoolExecutor(agent.at_once) as pool:
        seen = list(pool.map(act, range(recorded)))
    for number in range(recorded, len(notes)):
        by = number % recorded
        changes = ((notes[by].text, notes[number].text), (f"echo {written[by]} >", f"echo {written[number]} >"))
        seen.append([_changed(message, changes) for message in seen[by]])
    return seen


def _changed(message: Mapping[str, Any], changes: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    content: str = message["content"]
    for old, new in changes:
        content = content.replace(old, new)
    return {**message, "content": content}


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
