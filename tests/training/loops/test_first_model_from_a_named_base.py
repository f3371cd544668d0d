"""A first model from a pretrained base: the choice on the page, an adapter where all weights have no room, and texts,
which a tiny model cannot write.

Real runs: test_first_model_from_nothing.py, tests/browser/test_first_models_in_browser.py.
"""

from __future__ import annotations

import io
import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from decisions.queries.first_labels import LEAST, find_first_labels
from jobs.models import Job
from jobs.runner import run_job
from models_registry.backends.outbound import close_clients
from models_registry.models import BASE_METHOD, Alias
from tests.work import work_until_over
from tools.factories import (
    OPTIONS,
    AgentVersionFactory,
    AliasFactory,
    ArtifactFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    ModelVersionFactory,
    RewardSpecFactory,
)
from tools.model_server import running_model_server
from training.engine.machine.facts import GB, Machine
from training.models import TrainingRun
from training.runs.defaults.values import find_defaults
from training.runs.estimates import capacity

pytestmark = pytest.mark.django_db(transaction=True)
SEVEN_BILLION = {"vocab_size": 32_000, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}


def write_base(folder: Path, matrix: list[int], layers: int, **config: Any) -> Path:
    """A model that says how large it is; nothing reads its weights."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"} | config))
    header = json.dumps(
        {
            f"model.layers.{layer}.self_attn.q_proj.weight": {"dtype": "F32", "shape": matrix, "data_offsets": [0, 0]}
            for layer in range(layers)
        }
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


@pytest.fixture
def base(tmp_path: Path, settings: Any) -> Path:
    settings.BASE_MODELS = [str(tmp_path / "models")]
    small = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return write_base(tmp_path / "models" / "small", [32, 32], 2, **small)


@pytest.fixture
def large(base: Path) -> Path:
    """7 billion weights in the layers."""
    return write_base(base.parent / "large", [4096, 53_000], 32, **SEVEN_BILLION)


@pytest.fixture
def judged(agent: Any) -> None:
    for number in range(LEAST):
        text = f"{'abcdefghij'[number % 10] * 9} text {number} "
        state = {"text": text}
        decided = DecisionFactory(agent=agent, state=state, action=OPTIONS[number % 3], unit=f"unit {number}")
        FeedbackFactory(decision=decided, value="confirmed")


@pytest.fixture
def writer(workspace: Any) -> Any:
    """An agent that writes texts, with forty that were confirmed and two that were not."""
    version = AgentVersionFactory(agent__workspace=workspace, action_space="text", options=None)
    RewardSpecFactory(agent=version.agent)
    for number in range(42):
        text = f"{'klmnopqrst'[number % 10] * 9} text {number} "
        decided = DecisionFactory(
            agent=version.agent, agent_version=version, state={"text": text}, options=None,
            action=f"a summary of {number}", unit=f"unit {number}",
        )  # fmt: skip
        FeedbackFactory(decision=decided, value="confirmed" if number < 40 else "corrected")
    return version.agent


def read(client: Any, name: str, agent: Any, *arguments: str) -> str:
    answer = client.get(reverse(f"pages:{name}", args=[agent.workspace.slug, *arguments]))
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def send(client: Any, agent: Any, **fields: str) -> Any:
    return client.post(reverse("pages:train-new", args=[agent.workspace.slug]), {"agent": agent.slug, **fields})


class TestChoices:
    def test_an_adapter_over_a_base_that_is_chosen_on_the_page(
        self, agent: Any, judged: None, base: Path, admin: Any, page_client: Any, store: Path
    ) -> None:
        client = page_client(admin)
        assert "Choose the base model" in read(client, "overview", agent)
        assert f'<option value="{base}">' in read(client, "train-new", agent)
        assert send(client, agent, base_model=str(base), weights="lora").status_code == 302
        run_job(Job.objects.get().id)
        run = TrainingRun.objects.get()
        assert (run.method, run.base_model, run.dataset.kind) == ("sft", str(base), "labelled")
        assert run.spec["lora"]["r"] > 0 and run.heldout is not None

    @pytest.mark.parametrize("lora", [None, False])
    def test_all_weights_are_trained_where_that_is_asked_for_and_by_default(
        self, agent: Any, judged: None, base: Path, api: Any, store: Path, lora: bool | None
    ) -> None:
        answer = api().post("runs/train", {"agent": agent.slug, "base_model": str(base), "lora": lora})
        assert answer.status_code == 202
        run_job(Job.objects.get().id)
        run = TrainingRun.objects.get()
        assert run.method == "pretrain" and "lora" not in run.spec

    def test_an_adapter_stands_in_where_all_weights_have_no_room(
        self, agent: Any, judged: None, large: Path, api: Any, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        computer = Machine("a CPU", 8, 16, 64 * GB)
        monkeypatch.setattr(capacity, "this_machine", lambda: computer)
        monkeypatch.setattr(capacity, "measure_free_disk", lambda _: 10**13)
        body = {"agent": agent.slug, "base_model": str(large)}
        refused = api().post("runs/train", body | {"lora": False})
        assert refused.json()["error"]["fields"][0]["field"] == "memory" and not Job.objects.exists()
        assert api().post("runs/train", body).status_code == 202
        run_job(Job.objects.get().id)
        assert TrainingRun.objects.get().method == "sft"

    def test_what_keeps_it_from_starting_is_shown_beside_the_choice(
        self, agent: Any, judged: None, large: Path, admin: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(capacity, "this_machine", lambda: Machine("a CPU", 8, 16, 8 * GB))
        answer = send(page_client(admin), agent, base_model=str(large), weights="")
        assert answer.status_code == 400 and "of memory" in answer.content.decode()
        answer = send(page_client(admin), agent, base_model="tiny", weights="lora")
        assert answer.status_code == 400 and "the tiny model is trained whole" in answer.content.decode()
        answer = send(page_client(admin), agent, base_model="/etc", weights="")
        assert answer.status_code == 400 and "Select a valid choice" in answer.content.decode()
        assert not Job.objects.exists()

    def test_the_command_takes_an_adapter_too(self, agent: Any, judged: None, base: Path) -> None:
        call_command("runs", "train", "--agent", agent.slug, "--base", str(base), "--lora", stdout=io.StringIO())
        assert Job.objects.get().payload["lora"] is True

    def test_a_base_that_was_stored_for_a_run_that_failed_is_no_model_yet(
        self, agent: Any, judged: None, base: Path, api: Any
    ) -> None:
        """The first model is offered again, not a run on decisions from the base as it came."""
        ModelVersionFactory(registered_model=agent.registered_model, method=BASE_METHOD)
        answer = api().post("runs/train", {"agent": agent.slug, "base_model": str(base)})
        assert answer.status_code == 202 and Job.objects.get().kind == "training.first_model"

    def test_the_newest_adapter_is_trained_further_where_another_server_holds_the_champion(
        self, agent: Any, judged: None
    ) -> None:
        """Such as the adapter's own GGUF at llama.cpp's: neither its base as it came, nor a first model again."""
        model = agent.registered_model
        named = ModelVersionFactory(registered_model=model, method=BASE_METHOD)
        kept = ArtifactFactory(workspace=model.workspace, kind="adapter")
        adapter = ModelVersionFactory(registered_model=model, artifact=kept, base=named)
        remote = ModelVersionFactory(registered_model=model, artifact=None, remote_name="filer-gguf", method="remote")
        AliasFactory(registered_model=model, version=remote)
        assert find_defaults(agent.workspace, [agent])[agent.id].base == adapter

    def test_matrices_that_the_architecture_has_are_adapted(
        self, agent: Any, judged: None, base: Path, api: Any, store: Path
    ) -> None:
        """All of a mixture of experts cannot be."""
        (base / "config.json").write_text((base / "config.json").read_text().replace("llama", "qwen3_moe"))
        answer = api().post("runs/train", {"agent": agent.slug, "base_model": str(base), "lora": True})
        assert answer.status_code == 202, answer.content
        run_job(Job.objects.get().id)
        assert TrainingRun.objects.get().spec["lora"]["targets"] == "attention"


@pytest.mark.slow
class TestTexts:
    def test_confirmed_texts_make_the_first_model(
        self, writer: Any, base: Path, admin: Any, page_client: Any, api: Any, store: Path
    ) -> None:
        found = find_first_labels([writer])[writer.id]
        assert (found.verdicts, found.labels, found.ready, found.rare) == (42, 40, True, [])
        client, says = page_client(admin), "Train the first model from 42 verdicts"
        for place in (("overview",), ("run-start",), ("train-new",), ("agent", writer.slug)):
            text = read(client, place[0], writer, *place[1:])
            assert says in text and "40 of them confirm a text" in text, place
        assert "New tiny model" not in read(client, "train-new", writer)
        message = api("route:read").post(f"agents/{writer.slug}/decide", {"state": {"text": "x"}}).json()
        assert says in message["error"]["message"]
        sent = send(client, writer, base_model=str(base), weights="")
        assert "One run makes the first model" in unescape(client.get(sent["Location"]).content.decode())
        run_job(Job.objects.get().id)
        run = TrainingRun.objects.get()
        assert (run.method, run.dataset.kind, run.base_model) == ("reward_weighted", "text", str(base))
        assert run.heldout.kind == "text" and run.spec["lora"]["r"] > 0

    def test_nothing_starts_where_no_pretrained_base_is_allowed(
        self, writer: Any, settings: Any, admin: Any, page_client: Any, api: Any
    ) -> None:
        settings.BASE_MODELS = []
        answer = api().post("runs/train", {"agent": writer.slug})
        fault = answer.json()["error"]["fields"][0]
        assert (answer.status_code, fault["field"], fault["expected"]) == (
            400, "base_model", "a base in RECKONER_BASE_MODELS",
        )  # fmt: skip
        assert "RECKONER_BASE_MODELS" in read(page_client(admin), "train-new", writer)
        settings.BASE_MODELS = ["example/model-100m"]
        answer = api().post("runs/train", {"agent": writer.slug, "base_model": "tiny"})
        assert "example/model-100m" in answer.json()["error"]["fields"][0]["expected"]
        assert not Job.objects.exists()

    def test_the_form_of_a_run_starts_on_a_dataset_of_texts_from_a_pretrained_base(
        self, writer: Any, base: Path, admin: Any, page_client: Any
    ) -> None:
        dataset = DatasetSnapshotFactory(agent=writer, kind="text", rows=9, reward_spec=None)
        client, path = page_client(admin), reverse("pages:run-start", args=[writer.workspace.slug])
        form = client.get(path, {"dataset": str(dataset.id)}).context["form"]
        assert (form["base"].value(), form["method"].value()) == (str(base), "reward_weighted")
        assert f"Train on {dataset.name}" in unescape(client.get(path).content.decode())


@pytest.mark.slow
def test_an_agent_that_writes_is_served_by_what_its_confirmed_texts_made(
    writer: Any, tiny_run: Path, admin: Any, page_client: Any, api: Any, store: Path, settings: Any
) -> None:
    """A real run from a folder, by the page, and a real model server."""
    folder = tiny_run / "attempts" / "1" / "model"
    settings.BASE_MODELS = [str(folder)]
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        sent = send(page_client(admin), writer, base_model=str(folder), weights="")
        job = work_until_over(Job.objects.get())
        assert job.state == "succeeded", job.error
        run = TrainingRun.objects.get()
        assert page_client(admin).get(sent["Location"])["Location"].endswith(str(run.id))
        version = run.produced_version
        assert (version.kind, version.base.method) == ("adapter", BASE_METHOD)
        assert Alias.objects.get(name="champion").version == version
        answer = api("route:read").post(f"agents/{writer.slug}/decide", {"state": {"text": "kkkkkkkkk text 0 "}}).json()
        assert answer["model_version"] == str(version) and isinstance(answer["action"], str), answer
        close_clients()
