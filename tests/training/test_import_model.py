"""`manage.py import_model`: what was trained in a folder becomes a version that the model server answers by."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from models_registry.artifacts.opening import artifact_path
from models_registry.backends.endpoint import ScoreItem
from models_registry.backends.model_server import score
from models_registry.backends.outbound import close_clients
from models_registry.backends.prompts import Prompt
from models_registry.models import Alias, ModelVersion
from models_registry.versions.services import get_champion
from tools.factories import OPTIONS
from tools.model_server import running_model_server

pytestmark = pytest.mark.django_db


def import_model(*arguments: object) -> tuple[int, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command("import_model", *map(str, arguments), stdout=output, stderr=errors)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, output.getvalue(), errors.getvalue()


@pytest.fixture
def whole(tiny_run: Path, tmp_path: Path) -> Path:
    """As `manage.py train` leaves it, with something beside the weights that nobody should run."""
    shutil.copytree(tiny_run / "attempts" / "1" / "model", tmp_path / "out" / "model")
    (tmp_path / "out" / "model" / "pytorch_model.bin").write_bytes(b"pickled")
    return tmp_path / "out"


@pytest.fixture
def adapter(whole: Path, tmp_path: Path) -> Path:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(whole / "model")
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"])).save_pretrained(tmp_path / "lora")
    config = tmp_path / "lora" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": str(whole / "model")}))
    return tmp_path / "lora"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_folder_serves_and_an_adapter_lies_over_its_base(
    whole: Path, adapter: Path, store: Path, settings: Any, agent: Any
) -> None:
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        code, told, _ = import_model(whole, "--agent", "FILER", "--json")
        assert (code, json.loads(told)["champion"]) == (0, True)
        champion = get_champion(agent.registered_model)
        assert champion is not None and champion.method == "import" and str(champion) == json.loads(told)["version"]
        assert not (artifact_path(champion.stored.digest) / "pytorch_model.bin").exists()
        code, told, _ = import_model(adapter, "--agent", "filer", "--json")
        assert (code, json.loads(told)["champion"]) == (0, False)
        version = ModelVersion.objects.select_related("base__artifact", "artifact").get(id=json.loads(told)["id"])
        assert version.base is not None and version.base.method == "base" and version.parent == version.base
        for one in (champion, version):
            (answer,) = score([ScoreItem(one.stored.digest, Prompt("flight hotel visa"), tuple(OPTIONS), 16)])
            assert answer.probabilities is not None
            assert sum(answer.probabilities) == pytest.approx(1.0, abs=1e-4)
        close_clients()
    assert import_model(adapter, "--agent", "filer")[0] == 0
    assert ModelVersion.objects.filter(method="base").count() == 1  # once per content


@pytest.mark.slow
def test_what_cannot_serve_is_registered_and_never_champion(
    whole: Path, store: Path, settings: Any, agent: Any
) -> None:
    (whole / "model" / "tokenizer.json").unlink()
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        code, told, said = import_model(whole, "--agent", "FILER", "--json")
        close_clients()
    assert code == 1 and json.loads(told)["fault"] and "cannot serve it" in said
    assert ModelVersion.objects.count() == 1 and not Alias.objects.exists()


@pytest.mark.parametrize(
    ("files", "arguments", "says"),
    [
        ({}, ("nowhere", "--agent", "FILER"), "folder: there is no folder nowhere"),
        ({"notes.txt": "x"}, ("it", "--agent", "FILER"), "folder: it holds no model"),
        ({"config.json": "{}"}, ("it", "--agent", "FILER"), "has no weights as safetensors"),
        ({"config.json": "{}"}, ("it", "--agent", "COOK"), "--agent: no agents are 'COOK'; name one of: filer"),
        ({"adapter_config.json": "{}"}, ("it", "--agent", "FILER"), "does not name its base; give it"),
        (
            {"adapter_config.json": '{"base_model_name_or_path": "x"}'},
            ("it", "--agent", "FILER"),
            "has no adapter_model.safetensors",
        ),
    ],
)
def test_what_is_no_model_is_refused_and_nothing_registered(
    files: dict[str, str], arguments: tuple[str, ...], says: str, agent: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "it").mkdir()
    for name, text in files.items():
        (tmp_path / "it" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    code, _, said = import_model(*arguments)
    assert code == 2 and says in said, said
    assert not ModelVersion.objects.exists()
