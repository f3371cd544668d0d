"""An experiment of a version's GGUF, in llama.cpp's server, against the version itself, in our model server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from decisions.models import Decision
from decisions.rewards.maturing import mature_outcomes
from models_registry.backends.outbound import close_clients
from models_registry.models import ModelVersion
from tests.engine_task import labelled
from tools.llama_server import LlamaServer
from tools.model_server import running_model_server

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
UNITS = 160  # each arm is drawn at least 50, below which an interval is hidden: 4.7 standard deviations


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Iterator[Path]:
    shelf = tmp_path / "shelf"
    with running_model_server(shelf, "for-this-test") as address:
        settings.ARTIFACTS, settings.MODEL_SERVER_URL, settings.MODEL_SERVER_TOKEN = (
            str(shelf),
            address,
            "for-this-test",
        )
        yield shelf
    close_clients()


@pytest.fixture
def llama(tiny_run: Path, tmp_path: Path, settings: Any) -> Iterator[LlamaServer]:
    from training.engine.export.gguf import write_gguf

    server = LlamaServer(write_gguf(tiny_run / "attempts" / "1" / "model", tmp_path / "filer.gguf", "F16").path, "file")
    settings.BACKEND_URLS = [server.origin]
    yield server
    server.stop()


def test_the_file_is_not_shown_to_differ_from_its_version(
    agent: Any, base_version: ModelVersion, llama: LlamaServer, api: Any, settings: Any
) -> None:
    settings.FALLBACK_SECONDS = 30.0  # a server's first answer can be slow, and the other arm is then not known
    client = api()
    changed = {"expected_version": 1, "temperature": 0.001, "max_prompt_tokens": 16}
    assert client.request("PATCH", "agents/filer", changed).status_code == 200
    backend = {"name": "llama", "url": llama.url, "capabilities": ["grammar"]}
    file = {"model": "filer", "remote_name": "file", "backend": client.post("backends", backend).json()["id"]}
    plan = {"treatment": client.post("remote-versions", file).json()["id"], "reason": "does the file decide alike?"}
    experiment = client.post("experiments", plan | {"guardrails": []}).json()["id"]
    rows = labelled(UNITS, 7)
    # Every third one is longer than the model reads.
    asked = [
        {"state": {"text": row["prompt"] * (1 + 9 * (n % 3 == 0))}, "unit": row["id"]} for n, row in enumerate(rows)
    ]
    # A few at a time: what waits for the file's server longer than a fallback may take counts as failed.
    answers = [
        answer
        for begin in range(0, UNITS, 10)
        for answer in client.post("agents/filer/decide", asked[begin : begin + 10]).json()["answers"]
    ]
    verdicts = [
        {
            "decision_id": told["decision_id"],
            "metric": "verdict",
            "value": "confirmed" if told["action"] == row["answer"] else "corrected",
            "source": "code",
        }
        for told, row in zip(answers, rows, strict=True)
    ]
    assert client.post("feedback", verdicts).status_code == 201
    mature_outcomes(timezone.now() + dt.timedelta(days=3))
    found = client.get(f"experiments/{experiment}").json()
    assert (found["state"], found["failed_control"], found["failed_treatment"]) == ("running", 0, 0)
    assert found["units_control"] + found["units_treatment"] == found["units_conditioned"] == UNITS
    assert -0.02 < found["low"] <= 0 <= found["high"] < 0.02
    decided = Decision.objects.filter(propensity__gt=0.5).values_list(
        "model_version__remote_name", "other_arm_propensity"
    )
    assert {name for name, _ in decided} == {"", "file"}
    alike = [other > 0.5 for _, other in decided]  # the same option is the likeliest in both arms
    assert sum(alike) >= 0.98 * len(alike)
