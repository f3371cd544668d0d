"""Classifiers as files of ONNX and scikit-learn: each decides as the version by the lines that its README shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_world import OPTIONS, engine, labelled, read_result, write_run

from tests.tiny_encoder import make_encoder
from training.engine.__main__ import BadRun, read_run
from training.engine.rows.types import Prompt
from training.engine.spec.run_spec import ModelSource

FORMATS = ("onnx", "sklearn")
FEATURES = ("words", "encoder", "both")
TEXTS = ["flight hotel visa", "", "INVOICE  due\n— naïve café 你好", "please check the budget " * 400, *OPTIONS]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelSource]:
    """A trained classifier of each kind of features."""
    folder = tmp_path_factory.mktemp("classifiers")
    encoder = make_encoder(folder / "encoder")
    made = {}
    for name in FEATURES:
        base = {"words": True} if name == "words" else {"path": str(encoder)}
        settings = {"words_beside": name == "both"}
        spec = {"method": "classifier", "base": base, "classifier": settings}
        run = write_run(folder / name, spec, train=labelled(120, 1))
        assert engine(run) == 0
        head = str(run / "attempts/1/classifier")
        made[name] = ModelSource(path=head) if name == "words" else ModelSource(path=str(encoder), adapter=head)
    return made


def run_export(folder: Path, source: ModelSource, format: str, **data: Any) -> tuple[Path, dict[str, Any]]:
    spec = {"method": "export", "base": source.model_dump(), "export": {"format": format}}
    run = write_run(folder, spec, **data)
    assert engine(run) == 0
    return run / "attempts/1/export", read_result(run)["export"]


def decide_by_readme(folder: Path, texts: list[str]) -> list[dict[str, float]]:
    """What a program says that is nothing but the README's lines, in a process of its own."""
    block = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    source = block[1].replace("THIS FOLDER", str(folder))
    program = f"{source}\nimport json, sys\nprint(json.dumps([decide(text) for text in json.load(sys.stdin)]))\n"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        input=json.dumps(texts), capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said: list[dict[str, float]] = json.loads(ended.stdout)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("format", FORMATS)
def test_the_lines_of_the_readme_give_the_versions_probabilities(
    tmp_path: Path, sources: dict[str, ModelSource], format: str, features: str
) -> None:
    import torch

    from training.engine.classifiers.policy import load_classifier

    source = sources[features]
    folder, report = run_export(tmp_path / "run", source, format, heldout=labelled(40, 2))
    parity = report["parity"]
    assert (parity["prompts"], parity["decisions"], parity["equal_decisions"]) == ("held_out", 40, 1.0)
    assert parity["kl_largest"] < 1e-6 and parity["refusals"] == []
    assert parity["version"] == pytest.approx(parity["export"], abs=1e-5)

    said = decide_by_readme(folder, TEXTS)
    classifier = load_classifier(source, torch.device("cpu"))
    wanted = classifier.log_probabilities([Prompt(text) for text in TEXTS], [tuple(OPTIONS)] * len(TEXTS))
    for answer, log_p in zip(said, wanted, strict=True):
        assert [answer[option] for option in OPTIONS] == pytest.approx(np.exp(log_p).tolist(), abs=1e-5)
    pickled = [path.name for path in folder.rglob("*") if path.suffix in (".pkl", ".joblib", ".bin", ".pt")]
    assert pickled == []


@pytest.mark.slow
def test_two_options_fields_and_an_option_that_only_held_out_rows_have(tmp_path: Path) -> None:
    """Of two classes scikit-learn keeps one difference; a new combination of fields is scored by its fields."""

    def action(folder: str, urgent: bool) -> str:
        return json.dumps({"folder": folder, "urgent": urgent})

    seen = [action("tax", True), action("trip", False)]
    rows = [
        {"id": str(i), "prompt": f"{('tax due', 'late flight')[i % 2]} {i}", "options": seen, "answer": seen[i % 2]}
        for i in range(60)
    ]
    run = write_run(tmp_path / "run", {"method": "classifier", "base": {"words": True}}, train=rows)
    assert engine(run) == 0
    source = ModelSource(path=str(run / "attempts/1/classifier"))
    for format in FORMATS:
        folder, report = run_export(tmp_path / format, source, format)
        assert (report["parity"]["prompts"], report["details"]["options"]) == ("fallback", 2)
        assert report["parity"]["refusals"] == [] and list(decide_by_readme(folder, ["tax due"])[0]) == seen
        offered = [*seen, action("tax", False)]
        more = [row | {"options": offered} for row in rows[:20]]
        _, wider = run_export(tmp_path / f"{format}-wider", source, format, heldout=more)
        assert wider["details"]["options"] == 3 and wider["parity"]["kl_largest"] < 1e-6


def test_a_format_of_the_other_kind_is_refused_before_torch_is_there(tmp_path: Path) -> None:
    (tmp_path / "head").mkdir()
    (tmp_path / "head/classifier.json").touch()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    for place, plan, says in (
        ("head", {"format": "gguf"}, "export.format: gguf holds language models, and it is a classifier: export onnx"),
        ("head", {"format": "onnx", "cache": True}, "export.cache: a classifier reads whole texts"),
        ("model", {"format": "sklearn"}, "export.format: sklearn holds classifiers, and it is a language model"),
    ):
        spec = {"method": "export", "base": {"path": str(tmp_path / place)}, "export": plan}
        with pytest.raises(BadRun, match=says):
            read_run(write_run(tmp_path / f"{place}-{plan['format']}", spec))


@pytest.mark.slow
def test_an_encoder_that_onnxruntime_runs_gives_the_probabilities_of_torch(sources: dict[str, ModelSource]) -> None:
    import torch

    from training.engine.classifiers.encoders import load_encoder
    from training.engine.classifiers.onnx_encoders import convert
    from training.engine.classifiers.policy import read_classifier

    source = sources["both"]
    by_torch = load_encoder(Path(str(source.path)), torch.device("cpu"))
    asked = ([Prompt(text) for text in TEXTS], [(*OPTIONS, "never seen")] * len(TEXTS))
    wanted, answers = (
        read_classifier(Path(str(source.adapter)), encoder).log_probabilities(*asked)
        for encoder in (by_torch, convert(by_torch))
    )
    assert np.exp(answers) == pytest.approx(np.exp(wanted), abs=1e-4)


@pytest.mark.slow
def test_an_encoder_that_differs_in_onnxruntime_is_left_to_torch(
    sources: dict[str, ModelSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training.engine.classifiers import onnx_encoders
    from training.engine.classifiers.encoders import load_encoder
    from training.engine.spec.refused import Refused

    encoder = load_encoder(Path(str(sources["encoder"].path)), torch.device("cpu"))
    monkeypatch.setattr(onnx_encoders, "find_prefix", lambda encoder: "another ")
    with pytest.raises(Refused, match="its vectors differ by"):
        onnx_encoders.convert(encoder)
    monkeypatch.setattr(onnx_encoders, "find_spec", lambda name: None)
    with pytest.raises(Refused, match="onnx, onnxruntime not installed"):
        onnx_encoders.convert(encoder)
