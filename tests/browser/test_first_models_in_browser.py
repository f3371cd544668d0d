"""From an empty workspace to a model that answers, by pages alone: a key, an app's decisions over REST with it,
verdicts by API and in the queue, *Train the first model*, served. From a new tiny model, and from a named base under an
adapter, which goes on to merged weights, GGUF, Ollama and llama.cpp's own server.

Beside the browser happens what happens beside it in life: the app calls the API, and workers do the jobs.
RECKONER_SCREENSHOTS=1 leaves a picture of each step in var/screenshots.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from jobs.models import Job
from jobs.runner import run_job
from models_registry.backends.asking import forget_breakers
from models_registry.backends.outbound import close_clients
from models_registry.models import BASE_METHOD, Alias, ModelVersion
from tests.browser.accessibility import SHOTS
from tests.training.engine.engine_world import engine, write_run
from tests.training.loops.first_world import OPTIONS, act, make_texts
from tests.training.ollama_stub import OllamaStub
from tools.factories import PASSWORD
from tools.llama_server import LlamaServer
from tools.model_server import running_model_server
from training.models import TrainingRun

pytestmark = pytest.mark.slow
DECISIONS, BY_API, IN_THE_QUEUE = 300, 80, 26
BUTTON = f"Train the first model from {BY_API + IN_THE_QUEUE} verdicts"


@pytest.fixture(autouse=True)
def model_server(store: Path, settings: Any) -> Iterator[None]:
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        yield
        close_clients()
        forget_breakers()


@pytest.fixture
def pretrained(tmp_path: Path, settings: Any) -> Path:
    """A folder as its owner keeps it: a small model that has read such texts before."""
    rows = [
        {"id": str(number), "prompt": text, "options": OPTIONS, "answer": right}
        for number, (text, right) in enumerate(make_texts(400, seed=50))
    ]
    spec = {"method": "pretrain", "base": {"tiny": {}}, "optimiser": {"learning_rate": 3e-3, "epochs": 8}}
    run = write_run(tmp_path / "pretraining", spec, train=rows)
    assert engine(run) == 0
    folder = tmp_path / "models" / "small-qwen2"
    folder.parent.mkdir()
    (run / "attempts" / "1" / "model").rename(folder)
    settings.BASE_MODELS = [str(folder.parent)]
    return folder


@dataclass(frozen=True)
class App:
    """What calls the API with its key."""

    url: str
    key: str

    def post(self, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def decide(self, texts: list[tuple[str, str]]) -> tuple[set[str], list[str]]:
        """The versions that answered, and the likeliest option of each text."""
        answers = self.post("agents/notes/decide", [{"state": {"text": text}} for text, _ in texts])["answers"]
        likeliest = [max(one["probabilities"], key=one["probabilities"].get) for one in answers]
        return {one["model_version"] for one in answers}, likeliest


def picture(tab: Any, name: str) -> None:
    if os.environ.get("RECKONER_SCREENSHOTS"):
        SHOTS.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=SHOTS / f"first-{name}.png", full_page=True)


def work(tab: Any) -> None:
    """What workers do: every job that waits, and those that they start; the page looks for what came of it now."""
    while (job := Job.objects.filter(state="queued").order_by("run_after", "id").first()) is not None:
        assert run_job(job.id) in ("succeeded", "queued"), Job.objects.get(id=job.id).error
    tab.clock.fast_forward(3_000)


def count_right(answers: list[str], texts: list[tuple[str, str]]) -> int:
    return sum(answer == right for answer, (_, right) in zip(answers, texts, strict=True))


def log_in(tab: Any, admin: Any) -> None:
    tab.clock.install()
    tab.goto("/")
    tab.get_by_label("Email").fill(admin.email)
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Log in").click()
    expect(tab.get_by_role("heading", name="Get started")).to_be_visible()
    picture(tab, "empty")


def make_key(tab: Any, url: str) -> App:
    """And an agent with it."""
    tab.get_by_role("link", name="Create a key").click()
    tab.get_by_label("Name of the app").fill("my app")
    tab.get_by_label("Name of the new agent").fill("notes")
    tab.get_by_label("Options, one per line").fill("\n".join(OPTIONS))
    tab.get_by_role("button", name="Create key").click()
    shown = tab.locator("main").get_by_text(re.compile(r"^[0-9a-f]{12}\.\S+$")).first
    expect(shown).to_be_visible()
    picture(tab, "key")
    return App(url, shown.inner_text().strip())


def judge(tab: Any, app: App) -> None:
    """DECISIONS of the app's own rules; its users judge some over the API, a person others in the queue."""
    texts = make_texts(DECISIONS, seed=2)
    actions = act(texts, seed=3)
    items = [
        {"agent": "notes", "state": {"text": text}, "action": action, "policy_name": "rules", "unit": f"note-{number}"}
        for number, ((text, _), action) in enumerate(zip(texts, actions, strict=True))
    ]
    kept = app.post("decisions", items)["kept"]
    verdicts = [
        {"metric": "verdict", "value": "confirmed" if action == right else "corrected", "decision_id": one["id"]}
        for one, (_, right), action in zip(kept[:BY_API], texts, actions, strict=False)
    ]
    assert len(app.post("feedback", verdicts)["kept"]) == BY_API
    tab.locator("#sidebar").get_by_role("link", name="Overview").click()
    tab.get_by_role("link", name="Label", exact=True).click()
    right_of = dict(texts)
    for number in range(IN_THE_QUEUE):
        card = tab.get_by_role("article", name="Decision to label")
        expect(card).to_be_visible()
        if number == 0:
            picture(tab, "queue")
        text = next(text for text in right_of if text in card.get_by_label("State").inner_text())
        is_right = card.locator(".card-chose .action").inner_text() == right_of[text]
        before = card.get_attribute("data-card")
        tab.keyboard.press("c" if is_right else str(OPTIONS.index(right_of[text]) + 1))
        expect(tab.locator(f"[data-card='{before}']:visible")).to_have_count(0)
    expect(tab.get_by_text(f"{IN_THE_QUEUE} labelled by you today")).to_be_visible()
    tab.locator("#sidebar").get_by_role("link", name="Overview").click()
    picture(tab, "judged")


def follow(tab: Any, made: str) -> None:
    """From the page that follows the job to the last run's."""
    expect(tab.get_by_role("heading", name="Training the first model")).to_be_visible()
    picture(tab, "under-way")
    work(tab)
    expect(tab.get_by_text(re.compile(rf"{made} is right on"))).to_be_visible()
    picture(tab, "run")


def test_from_an_empty_workspace_to_a_model_that_serves(tab: Any, admin: Any, workspace: Any, live_server: Any) -> None:
    log_in(tab, admin)
    app = make_key(tab, live_server.url)
    judge(tab, app)
    tab.get_by_role("button", name=BUTTON).click()
    follow(tab, r"notes:\d")
    methods = list(TrainingRun.objects.order_by("id").values_list("method", flat=True))
    assert methods == ["classifier", "pretrain", "classifier", "posterior"]
    best = str(Alias.objects.get(name="champion").version)
    fresh = make_texts(100, seed=4)
    served, answers = app.decide(fresh)
    assert served == {best} and count_right(answers, fresh) >= 60
    tab.locator("#sidebar").get_by_role("link", name="Overview").click()
    champion = tab.get_by_role("region", name="Champion and challenger")
    expect(champion.get_by_role("link", name=best)).to_be_visible()
    expect(tab.get_by_text(BUTTON)).to_have_count(0)
    picture(tab, "served")


def export(tab: Any, label: str) -> None:
    """The format whose name begins so, on the version's page."""
    formats = tab.get_by_label("Format")
    name = next(name for name in formats.locator("option").all_inner_texts() if name.startswith(label))
    formats.select_option(label=name)
    tab.get_by_role("button", name="Export", exact=True).click()
    expect(tab.get_by_text(re.compile("is queued"))).to_be_visible()
    work(tab)
    expect(tab.locator("#exports").get_by_text("queued")).to_have_count(0)


def download(tab: Any, format: str, folder: Path) -> Path:
    """The export's files, unpacked."""
    with tab.expect_download() as started:
        made = tab.locator("#exports .export").filter(has_text=format)
        made.get_by_role("link", name=re.compile("^Download")).click(timeout=300_000)
    started.value.save_as(folder / "export.tar")
    with tarfile.open(folder / "export.tar") as tar:
        tar.extractall(folder, filter="data")
    (files,) = (place for place in folder.iterdir() if place.is_dir())
    return files


def serve_elsewhere(tab: Any, server: LlamaServer) -> None:
    """llama.cpp's server as a backend, the file as a version there, and that version promoted."""
    tab.locator("#sidebar").get_by_role("link", name="Backends").click()
    tab.get_by_role("link", name="Add a backend").first.click()
    tab.get_by_label("Name", exact=True).fill("llama")
    tab.get_by_label("Address").fill(server.url)
    tab.get_by_label("Models trained here, asked as in training").check()
    picture(tab, "backend-form")
    tab.get_by_role("button", name="Add backend").click()
    tab.locator("summary", has_text="Add a remote version").click()
    tab.locator("#remote-remote_name").fill("notes-gguf")
    tab.get_by_label("Description").fill("notes:3 as GGUF")
    tab.get_by_role("button", name="Add the version").click()
    tab.get_by_role("link", name="notes:4").first.click()
    tab.get_by_role("link", name="Promote").click()
    tab.get_by_label("Reason").fill("decides as notes:3, and is smaller")
    tab.get_by_role("button", name="Promote notes:4").click()
    expect(tab.get_by_text("notes:4 is now the champion.")).to_be_visible()
    picture(tab, "served-by-llama")


def test_from_a_named_base_under_an_adapter_to_llama_cpp(
    tab: Any,
    admin: Any,
    workspace: Any,
    live_server: Any,
    pretrained: Path,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_in(tab, admin)
    app = make_key(tab, live_server.url)
    judge(tab, app)
    tab.get_by_role("link", name="Choose the base model").click()
    tab.get_by_label("Base model").select_option(str(pretrained))
    tab.get_by_label("Trained weights").select_option("lora")
    picture(tab, "base")
    tab.get_by_role("button", name=BUTTON).click()
    follow(tab, "notes:3")
    named, *trained = ModelVersion.objects.order_by("number")
    assert (named.method, named.base_model) == (BASE_METHOD, pretrained.name)
    assert [(one.method, one.kind, one.base) for one in trained] == [
        ("sft", "adapter", named),
        ("posterior", "adapter", named),
    ]
    fresh = make_texts(60, seed=4)
    served, by_model_server = app.decide(fresh)
    assert served == {"notes:3"} and count_right(by_model_server, fresh) >= 36 and len(set(by_model_server)) > 3

    ollama = OllamaStub(tmp_path)
    monkeypatch.setenv("OLLAMA_HOST", ollama.url)
    tab.get_by_role("link", name="notes:3", exact=True).first.click()
    for label in ("Merged weights", "GGUF (llama.cpp), Q8_0", "A model at the Ollama server"):
        export(tab, label)
    # Ollama's makes a GGUF of its own. Each says how many of its decisions are the version's.
    expect(tab.locator("#exports .export").get_by_text("ready", exact=True)).to_have_count(4)
    expect(tab.locator("#exports").get_by_text("decisions are the version's")).to_have_count(4)
    picture(tab, "exported")
    (model,) = ollama.models.values()
    assert model["tensors"] > 0 and "<|user|>" in model["template"]
    ollama.close()

    files = download(tab, "GGUF (llama.cpp), Q8_0", tmp_path / "downloaded")
    (gguf,) = files.glob("*.gguf")
    server = LlamaServer(gguf, "notes-gguf")
    try:
        settings.BACKEND_URLS = [server.origin]
        serve_elsewhere(tab, server)
        served, by_llama = app.decide(fresh)
        assert served == {"notes:4"} and by_llama == by_model_server
    finally:
        close_clients()
        server.stop()
