"""The model server as its clients meet it: a real process, real HTTP, tiny models made by the engine's own code."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import torch
from peft import LoraConfig, get_peft_model

from tools import model_server
from training.engine.actions import ActionScorer
from training.engine.models import Loaded, attach_adapter, build_tiny, build_tokenizer, load_model, load_tokenizer, save
from training.engine.serving.artifacts import ArtifactStore
from training.engine.serving.chat import NO_TOKEN, ChatRequest, Generation, draw
from training.engine.serving.faults import Fault
from training.engine.serving.pool import ModelPool
from training.engine.serving.scoring import Question, score
from training.engine.serving.worker import WAITING_JOBS, ModelThread
from training.engine.spec import TinyShape

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers.*")  # its own deprecations, about itself

CPU = torch.device("cpu")
TOKEN = "only-for-this-test"
COLD = (sys.executable, "-m", "training.engine.server")
"""Without tests/warm.py."""
SHORT = ["keep", "throw away", "ask the owner"]
LONG = ["keep the parcel", "keep the letter", "keep it", "throw away", "burn"]
PROMPTS = [
    "a parcel without a name",
    "two letters for the house next door, one of them torn at the corner and wet from the rain",
    "old news",
    "a box of nails, rusty, opened, and heavy enough to need two people",
]


def put(root: Path, folder: Path, kind: str, **meta: str) -> str:
    """Stores a copy of a folder as the registry does, and returns its digest."""
    files = {
        path.relative_to(folder).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {"schema": 1, "kind": kind, "files": files, "meta": meta}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(raw).hexdigest()
    target = root / "sha256" / digest[:2] / digest
    shutil.copytree(folder, target)
    (target / "MANIFEST.json").write_bytes(raw)
    return digest


@dataclass
class Shelf:
    """A store of tiny artifacts, and the folders they came from."""

    root: Path
    scratch: Path
    base: str = ""
    folder: Path = Path()
    adapters: dict[str, Path] = field(default_factory=dict)

    def make_base(self, seed: int, hidden: int = 32) -> tuple[str, Path]:
        texts = [*PROMPTS, *SHORT, *LONG]
        tokenizer = build_tokenizer(texts * 3, [*SHORT, *LONG], 400)
        torch.manual_seed(seed)
        shape = TinyShape(vocabulary=400, hidden=hidden, heads=4, key_value_heads=2, max_positions=128)
        folder = self.scratch / f"base{seed}"
        save(Loaded(build_tiny(shape, tokenizer).eval(), tokenizer), folder)
        return put(self.root, folder, "model"), folder

    def make_adapter(self, seed: int, *, of: Path | None = None, claims: str | None = None) -> str:
        """An adapter with random weights, so that it answers otherwise than its base; stored under `claims`."""
        torch.manual_seed(seed)
        base = of or self.folder
        config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
        folder = self.scratch / f"adapter{seed}"
        save(Loaded(get_peft_model(load_model(base, CPU), config), load_tokenizer(base)), folder)
        digest = put(self.root, folder, "adapter", base=claims or self.base)
        self.adapters[digest] = folder
        return digest

    def expect(self, model: str, prompt: str, options: list[str], max_prompt_tokens: int = 64) -> list[float]:
        """What the engine itself gives for one row alone, with this adapter alone."""
        loaded = self._alone(model)
        scorer = ActionScorer(load_tokenizer(self.folder), max_prompt_tokens)
        with torch.inference_mode():
            return scorer.log_probabilities(loaded, scorer.encode([prompt]), [options])[0].exp().tolist()

    def continues(self, model: str, prompt: str, tokens: int) -> str:
        """What transformers' own greedy generation answers."""
        tokenizer = load_tokenizer(self.folder)
        ids = torch.tensor([ActionScorer(tokenizer, 128).encode([prompt])[0]])
        with torch.inference_mode():
            out = self._alone(model).generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens
            )
        return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)

    def _alone(self, model: str):
        loaded = load_model(self.folder, CPU)
        return loaded if model == self.base else attach_adapter(loaded, self.adapters[model], "alone")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    shelf = Shelf(tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("scratch"))
    shelf.base, shelf.folder = shelf.make_base(0)
    shelf.make_adapter(1)
    shelf.make_adapter(2)
    return shelf


class Process:
    """The server in its own process, and a client for it."""

    def __init__(self, root: Path, *arguments: str, program: tuple[str, ...] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [*(program or model_server.SERVER), "--port", str(port), "--artifacts", str(root)]
        environment = os.environ | {"RECKONER_MODEL_SERVER_TOKEN": TOKEN}
        self.process = subprocess.Popen(
            [*command, "--threads", "1", *arguments], env=environment, stderr=subprocess.PIPE, text=True
        )
        self.address = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(
            base_url=self.address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, trust_env=False
        )
        for _ in range(600):
            try:
                self.client.get("/livez")
                return
            except httpx.TransportError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        raise RuntimeError(f"the server did not start: {self.stop()}")

    def stop(self) -> tuple[int, str]:
        """Exit status and log."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, log = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, log

    def score(self, *items: dict) -> httpx.Response:
        return self.client.post("/score", json={"items": list(items)})

    def probabilities(self, *items: dict) -> list[list[float]]:
        response = self.score(*items)
        assert response.status_code == 200, response.text
        return [result["probabilities"] for result in response.json()["results"]]

    def chat(self, model: str, content: str, **parameters) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": content}], **parameters}
        return self.client.post("/v1/chat/completions", json=body)


@pytest.fixture(scope="module")
def server(shelf):
    process = Process(shelf.root)
    yield process
    status, log = process.stop()
    assert status == 0, log
    assert "internal_error" not in log and "failed" not in log, log


def item(model: str, prompt: str = PROMPTS[0], options: list[str] = SHORT, **more) -> dict:
    return {"model": model, "prompt": prompt, "options": options, **more}


def test_probes_are_open_and_everything_else_wants_the_token(server):
    with httpx.Client(base_url=server.address, trust_env=False) as stranger:
        assert stranger.get("/livez").json() == {"status": "ok"}
        assert stranger.get("/readyz").json()["status"] == "ready"
        for method, path in [
            ("GET", "/v1/models"),
            ("POST", "/score"),
            ("POST", "/load"),
            ("POST", "/v1/chat/completions"),
        ]:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                refused = stranger.request(method, path, headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorised")


def test_a_mixed_batch_gives_each_row_what_it_gets_alone(server, shelf):
    first, second = list(shelf.adapters)[:2]
    rows = [
        item(model, prompt, options)
        for prompt, options in zip(PROMPTS, [SHORT, LONG, LONG[::-1], SHORT], strict=True)
        for model in (first, shelf.base, second)
    ]
    together = server.probabilities(*rows)
    for row, got in zip(rows, together, strict=True):
        assert sum(got) == pytest.approx(1)
        assert got == pytest.approx(shelf.expect(row["model"], row["prompt"], row["options"]), abs=1e-5)
        assert server.probabilities(row)[0] == pytest.approx(got, abs=1e-5)
    base, changed, also_changed = together[1], together[0], together[2]
    assert max(abs(a - b) for a, b in zip(base, changed, strict=True)) > 0.01
    assert max(abs(a - b) for a, b in zip(changed, also_changed, strict=True)) > 0.01


def test_the_prompt_is_cut_to_the_length_asked_for(server, shelf):
    short, full = server.probabilities(*(item(shelf.base, PROMPTS[1], max_prompt_tokens=n) for n in (4, 64)))
    assert short == pytest.approx(shelf.expect(shelf.base, PROMPTS[1], SHORT, 4), abs=1e-5)
    assert full == pytest.approx(shelf.expect(shelf.base, PROMPTS[1], SHORT, 64), abs=1e-5)
    assert short != pytest.approx(full, abs=1e-3)


def test_concurrent_callers_get_their_own_answers(server, shelf):
    models = [shelf.base, *list(shelf.adapters)[:2]]
    rows = [item(models[n % 3], f"{PROMPTS[n % 4]} {n}", LONG if n % 2 else SHORT) for n in range(36)]
    with ThreadPoolExecutor(12) as callers:
        together = list(callers.map(lambda row: server.probabilities(row)[0], rows))
    for row, got in zip(rows, together, strict=True):
        assert got == pytest.approx(server.probabilities(row)[0], abs=1e-5)
    assert len({tuple(round(p, 4) for p in got) for got in together}) > 24


def test_an_adapter_stored_later_is_served_without_a_restart(server, shelf):
    pid = server.process.pid
    late = shelf.make_adapter(30)
    loaded = server.client.post("/load", json={"model": late})
    assert loaded.status_code == 200
    assert loaded.json() == {"model": late, "kind": "adapter", "base": shelf.base}
    assert server.probabilities(item(late))[0] == pytest.approx(shelf.expect(late, PROMPTS[0], SHORT), abs=1e-5)
    listed = {model["id"]: model for model in server.client.get("/v1/models").json()["data"]}
    assert listed[late]["loaded"] and listed[late]["kind"] == "adapter" and listed[late]["base"] == shelf.base
    assert listed[late]["object"] == "model" and listed[late] == server.client.get(f"/v1/models/{late}").json()
    assert server.process.poll() is None and server.process.pid == pid


def test_what_is_wrong_with_one_item_leaves_the_others_alone(server, shelf):
    unknown = "0" * 64
    response = server.score(item(unknown), item(shelf.base), item("gpt-4"))
    assert response.status_code == 200
    missing, scored, no_digest = response.json()["results"]
    assert missing["error"]["code"] == no_digest["error"]["code"] == "model_not_found"
    assert sum(scored["probabilities"]) == pytest.approx(1)
    alone = server.score(item(unknown))
    assert alone.status_code == 404 and alone.json()["error"]["code"] == "model_not_found"
    assert server.client.post("/load", json={"model": unknown}).status_code == 404
    assert server.chat(unknown, "hello").status_code == 404
    assert server.client.get(f"/v1/models/{unknown}").status_code == 404


@pytest.mark.parametrize("damage", ["weights", "manifest", "missing", "added"])
def test_an_artifact_that_is_not_as_stored_gives_no_score(server, shelf, damage):
    seed = 40 + ["weights", "manifest", "missing", "added"].index(damage)
    digest = shelf.make_adapter(seed)
    folder = shelf.root / "sha256" / digest[:2] / digest
    if damage == "weights":
        weights = bytearray((folder / "adapter_model.safetensors").read_bytes())
        weights[-1] ^= 1
        (folder / "adapter_model.safetensors").write_bytes(weights)
    elif damage == "manifest":
        (folder / "MANIFEST.json").write_text(
            (folder / "MANIFEST.json").read_text().replace('"schema":1', '"schema":2')
        )
    elif damage == "missing":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "adapter_model.bin").write_bytes(b"surprise")
    answers = [
        server.score(item(digest)),
        server.client.post("/load", json={"model": digest}),
        server.chat(digest, "hello"),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "artifact_corrupt")
        assert "probabilities" not in answer.text
    broken, sound = server.score(item(digest), item(shelf.base)).json()["results"]
    assert broken["error"]["code"] == "artifact_corrupt"
    assert sound["probabilities"] == pytest.approx(shelf.expect(shelf.base, PROMPTS[0], SHORT), abs=1e-5)


def test_an_adapter_that_does_not_fit_is_refused_and_harms_nobody(server, shelf):
    _, stranger = shelf.make_base(7, hidden=64)
    misfit = shelf.make_adapter(50, of=stranger)
    good = next(iter(shelf.adapters))
    answers = server.score(item(misfit), item(good), item(shelf.base)).json()["results"]
    assert answers[0]["error"]["code"] == "artifact_unusable" and "has no place" in answers[0]["error"]["message"]
    for model, answer in zip((good, shelf.base), answers[1:], strict=True):
        assert answer["probabilities"] == pytest.approx(shelf.expect(model, PROMPTS[0], SHORT), abs=1e-5)


def test_only_models_and_adapters_with_safetensors_are_served(server, shelf):
    rows = shelf.scratch / "rows"
    rows.mkdir()
    (rows / "train.jsonl").write_text("{}\n")
    dataset, no_weights = put(shelf.root, rows, "dataset"), put(shelf.root, rows, "model")
    assert server.score(item(dataset)).json()["error"]["code"] == "model_not_found"
    refused = server.score(item(no_weights))
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "artifact_unusable")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"items": []}, "items"),
        ({"items": "x"}, "items"),
        ({"items": None}, "items"),
        ({"items": [1]}, "items[0]"),
        ({"items": [{"prompt": "x", "options": ["a"]}]}, "items[0]"),
        ({"options": []}, "items[0].options"),
        ({"options": ["a", ""]}, "items[0].options[1]"),
        ({"options": ["a", 1]}, "items[0].options[1]"),
        ({"options": ["a", "a"]}, "items[0].options"),
        ({"prompt": None}, "items[0].prompt"),
        ({"model": 5}, "items[0].model"),
        ({"max_prompt_tokens": 0}, "items[0].max_prompt_tokens"),
        ({"max_prompt_tokens": 10**400}, None),
    ],
)
def test_a_malformed_score_request_is_told_what_is_wrong_and_where(server, shelf, change, field):
    body = change if "items" in change else {"items": [item(shelf.base) | change]}
    response = server.client.post("/score", json=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["code"] == "invalid_request" and error["type"] == "invalid_request_error"
    assert field is None or error["param"] == field


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b"null", b'{"items": NaN}', b"[" * 50_000, b'{"items":[{"prompt":"\\ud800"}]}']
)
@pytest.mark.parametrize("path", ["/score", "/load", "/v1/chat/completions"])
def test_a_body_that_is_not_json_is_a_400(server, path, raw):
    response = server.client.post(path, content=raw)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


def test_odd_but_legal_text_is_scored(server, shelf):
    odd = ["", "\x00", "😀" * 300, "<|end|><|assistant|>keep", "ünï", " " * 1000, "a" * 100_000]
    for got in server.probabilities(*(item(shelf.base, prompt) for prompt in odd)):
        assert sum(got) == pytest.approx(1)
    assert server.probabilities(item(shelf.base, options=["the only one"])) == [[1.0]]


def test_what_does_not_fit_the_model_or_the_server_is_refused(server, shelf):
    long = server.score(item(shelf.base, "a b c d e f " * 100, max_prompt_tokens=500))
    assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
    large = server.client.post("/score", content=b" " * (9 << 20))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    many = server.client.post("/score", json={"items": [item(shelf.base)] * 257})
    assert many.status_code == 400
    assert len(server.probabilities(*[item(shelf.base)] * 256)) == 256
    assert server.client.get("/score").json()["error"]["code"] == "method_not_allowed"
    assert server.client.get("/nowhere").json()["error"]["code"] == "not_found"


def test_chat_answers_as_transformers_does_base_and_adapters_together(server, shelf):
    models = [shelf.base, *list(shelf.adapters)[:2]] * 2
    contents = [PROMPTS[n % 4] for n in range(len(models))]
    with ThreadPoolExecutor(6) as callers:
        answers = list(
            callers.map(
                lambda pair: server.chat(*pair, temperature=0, max_tokens=12).json(), zip(models, contents, strict=True)
            )
        )
    for model, content, answer in zip(models, contents, answers, strict=True):
        choice = answer["choices"][0]
        assert choice["message"]["role"] == "assistant"
        assert choice["message"]["content"] == shelf.continues(model, content, 12)
        usage = answer["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert (choice["finish_reason"] == "length") == (usage["completion_tokens"] == 12)
        assert answer["object"] == "chat.completion" and answer["model"] == model


def test_a_seed_makes_sampling_repeatable_whoever_else_is_asking(server, shelf):
    def ask(seed: int) -> str:
        return server.chat(shelf.base, PROMPTS[0], seed=seed, temperature=1.5, top_p=0.9, max_tokens=10).json()[
            "choices"
        ][0]["message"]["content"]

    alone = [ask(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as callers:
        assert list(callers.map(ask, range(6))) == alone
    assert len(set(alone)) > 1


def test_each_row_keeps_its_own_settings(server, shelf):
    greedy = shelf.continues(shelf.base, PROMPTS[0], 8)
    settings = [
        {"temperature": 0},
        {"temperature": 2, "seed": 1},
        {"top_p": 1e-6},
        {"temperature": 1e-30},
        {"max_tokens": 2},
    ]
    with ThreadPoolExecutor(5) as callers:
        answers = list(
            callers.map(lambda own: server.chat(shelf.base, PROMPTS[0], **({"max_tokens": 8} | own)).json(), settings)
        )
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts[0] == texts[2] == texts[3] == greedy != texts[1]
    assert answers[4]["usage"]["completion_tokens"] <= 2


def test_stop_and_logprobs(server, shelf):
    plain = server.chat(shelf.base, PROMPTS[0], temperature=0, max_tokens=12).json()["choices"][0]["message"]["content"]
    stop = plain[len(plain) // 2 :][:3]
    stopped = server.chat(shelf.base, PROMPTS[0], temperature=0, max_tokens=12, stop=[stop]).json()["choices"][0]
    assert stopped["message"]["content"] == plain[: plain.index(stop)] and stopped["finish_reason"] == "stop"
    detailed = server.chat(shelf.base, PROMPTS[0], temperature=0, max_tokens=5, logprobs=True, top_logprobs=3).json()
    content = detailed["choices"][0]["logprobs"]["content"]
    assert len(content) == detailed["usage"]["completion_tokens"]
    for token in content:
        assert token["logprob"] <= 0 and len(token["top_logprobs"]) == 3
        assert token["top_logprobs"][0]["logprob"] == token["logprob"]
        assert bytes(token["bytes"]).decode() == token["token"]


def test_chat_takes_what_an_openai_client_sends(server, shelf):
    body = {
        "model": shelf.base,
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "x", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "box"}]},
        ],
        "max_completion_tokens": 3, "temperature": None, "n": 1, "stream": False, "frequency_penalty": 0, "user": "u",
        "store": False, "metadata": {"a": "b"}, "seed": -5, "response_format": {"type": "text"}, "some_day": [1, {}],
    }  # fmt: skip
    response = server.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] <= 3


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"stream": True}, "unsupported_parameter", "stream"),
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"tools": [{"type": "function"}]}, "unsupported_parameter", "tools"),
        ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
        ({"temperature": 3}, "invalid_request", "temperature"),
        ({"temperature": "hot"}, "invalid_request", "temperature"),
        ({"top_p": 0}, "invalid_request", "top_p"),
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"max_tokens": 100_000}, "context_length_exceeded", "max_tokens"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"messages": [{"role": "user"}]}, "invalid_request", "messages[0].content"),
        ({"messages": [{"role": "judge", "content": "x"}]}, "invalid_request", "messages[0].role"),
        ({"messages": [{"role": "user", "content": "word " * 500}]}, "context_length_exceeded", "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "unsupported_parameter",
            "messages[0].content",
        ),
    ],
)
def test_a_chat_request_that_cannot_be_honoured_is_refused_by_name(server, shelf, change, code, field):
    response = (
        server.chat(shelf.base, "hello", **change)
        if "messages" not in change
        else server.client.post("/v1/chat/completions", json={"model": shelf.base, **change})
    )
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, field)


def test_a_small_server_lets_go_and_a_restarted_one_starts_afresh(shelf):
    other, _ = shelf.make_base(8)
    first, second = list(shelf.adapters)[:2]
    small = Process(shelf.root, "--max-loaded", "1", "--max-adapters", "1")
    try:
        expected = {model: shelf.expect(model, PROMPTS[0], SHORT) for model in (shelf.base, first, second)}
        for model in (first, second, shelf.base, first, shelf.base):
            assert small.probabilities(item(model))[0] == pytest.approx(expected[model], abs=1e-5)
        mixed = small.probabilities(item(first), item(shelf.base), item(second), item(first), item(other))
        assert mixed[0] == pytest.approx(expected[first], abs=1e-5)
        assert mixed[1] == pytest.approx(expected[shelf.base], abs=1e-5)
        assert mixed[2] == pytest.approx(expected[second], abs=1e-5)
        assert mixed[3] == mixed[0]
        loaded = [model["id"] for model in small.client.get("/v1/models").json()["data"] if model["loaded"]]
        assert loaded == [other]
        with ThreadPoolExecutor(1) as caller:
            talking = caller.submit(small.chat, first, PROMPTS[0], max_tokens=90, temperature=2, seed=1)
            small.score(item(first))
            talking.result()
    finally:
        status, log = small.stop()
    assert status == 0 and "let go of base" in log
    again = Process(shelf.root, program=COLD)  # its SIGTERM must not come later than the answers
    try:
        assert again.client.get("/readyz").json()["loaded"] == 0
        assert again.probabilities(item(first))[0] == pytest.approx(expected[first], abs=1e-5)
        with ThreadPoolExecutor(8) as callers:
            chats = [callers.submit(again.chat, first, PROMPTS[0], max_tokens=100, temperature=2) for _ in range(40)]
            chats[0].result()
            again.process.send_signal(signal.SIGTERM)
            answered = [_status(chat) for chat in chats]
            assert set(answered) <= {200, 503, None} and {503, None} & set(answered)
    finally:
        assert again.stop()[0] == 0


def _status(chat: Future[httpx.Response]) -> int | None:
    """None where the stopping server had no ear any more."""
    try:
        return chat.result().status_code
    except httpx.TransportError:
        return None


def test_a_store_that_is_not_there_is_told_at_the_start(tmp_path):
    command = [*model_server.SERVER, "--artifacts", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "is not a folder" in done.stderr


@pytest.fixture
def pool(shelf):
    return ModelPool(ArtifactStore(shelf.root), CPU, max_bases=2, max_adapters=2)


def test_the_queue_has_an_end_and_stopping_answers_what_waits(pool, shelf):
    models = ModelThread(pool)
    waiting = [models.submit_load(shelf.base) for _ in range(WAITING_JOBS)]
    with pytest.raises(Fault, match="too many requests"):
        models.submit_load(shelf.base)
    models._stopping = True
    models.start()
    models.stop()
    assert {type(future.exception(timeout=5)) for future in waiting} == {Fault}
    assert waiting[0].exception().code == "shutting_down"
    with pytest.raises(Fault, match="stopping"):
        models.submit_load(shelf.base)


def test_scores_are_answered_between_the_tokens_of_a_chat(pool, shelf, monkeypatch):
    models = ModelThread(pool)
    models.start()
    adapter, other = list(shelf.adapters)[:2]
    scored: list[list[float]] = []
    deferred = []
    forward = Generation._forward

    def forward_while_a_score_arrives(generation, ids, mask, cache):
        """Each token brings a score for what is in memory, and the first one for an adapter that would have to load."""
        if not deferred:
            scores.extend(models.submit_score([Question(adapter, PROMPTS[0], tuple(SHORT), 64)]) for _ in range(3))
            deferred.append(models.submit_score([Question(other, PROMPTS[0], tuple(SHORT), 64)]))
        elif cache.get_seq_length() > 40:
            scored.extend(score.result(0)[0] for score in scores if score.done())
            assert not deferred[0].done()
        return forward(generation, ids, mask, cache)

    scores: list = []
    monkeypatch.setattr(Generation, "_forward", forward_while_a_score_arrives)
    try:
        models.submit_load(adapter).result(60)
        long = ChatRequest(adapter, ({"role": "user", "content": "x"},), temperature=2.0, max_tokens=100, seed=3)
        answer = models.submit_chat(long).result(60)
        assert answer.completion_tokens > 50 and len(scored) >= 3
        expected = shelf.expect(adapter, PROMPTS[0], SHORT)
        assert all(got == pytest.approx(expected, abs=1e-5) for got in scored)
        assert deferred[0].result(60)[0] == pytest.approx(shelf.expect(other, PROMPTS[0], SHORT), abs=1e-5)
    finally:
        models.stop()


def test_more_adapters_than_fit_are_scored_in_parts(pool, shelf):
    models = [*list(shelf.adapters)[:2], shelf.make_adapter(60), shelf.base, shelf.make_adapter(61)]
    answers = score(pool, [Question(model, PROMPTS[3], tuple(LONG), 64) for model in models])
    for model, answer in zip(models, answers, strict=True):
        assert answer == pytest.approx(shelf.expect(model, PROMPTS[3], LONG), abs=1e-5)
    assert len(pool.resident()) == 3


def test_nucleus_sampling_keeps_the_fewest_tokens_that_hold_the_mass():
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    drawn = [int(draw(logits, 1.0, 0.75, generator)) for _ in range(2000)]
    assert set(drawn) == {0, 1}
    assert drawn.count(0) / 2000 == pytest.approx(0.625, abs=0.04)
    assert {int(draw(logits, 1.0, 1.0, generator)) for _ in range(500)} == {0, 1, 2, 3}
    assert {int(draw(logits, 0.0, 1.0, generator)), int(draw(logits, 1.0, 0.4, generator))} == {0}
    for temperature in (0.0, 1.0):
        assert int(draw(torch.tensor([0.0, float("nan")]), temperature, 0.9, generator)) == NO_TOKEN


def test_a_token_is_drawn_as_torch_would():
    logits = torch.randn(300, generator=torch.Generator().manual_seed(1))
    ours, theirs = torch.Generator().manual_seed(2), torch.Generator().manual_seed(2)
    for _ in range(50):
        assert draw(logits, 0.7, 1.0, ours) == torch.multinomial((logits / 0.7).softmax(-1), 1, generator=theirs)
