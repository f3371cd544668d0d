"""A model is not measured on prompts of another form than it learnt from: what is another form, and who refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from models_registry.artifacts.opening import artifact_path
from tests.engine_task import labelled
from tools.factories import AliasFactory, ModelVersionFactory
from training.datasets.snapshots import import_labelled
from training.engine.rows.prompt_forms import PROMPTS_FILE, PromptForm, find_mismatch, form_of, read_forms, write_forms
from training.engine.rows.types import Prompt

TEMPLATE = "File this item.\n\nItem: {}\n\nAnswer with JSON."
WORDS = "how can may who when where why did the my please send pay find tell give book stop open close".split()  # noqa: SIM905


def form(texts: list[str], system: str = "") -> PromptForm:
    found = form_of(Prompt(text, system) for text in texts)
    assert found is not None
    return found


TEMPLATED = form([TEMPLATE.format(word) for word in WORDS])
STATES = form([json.dumps({"item": {"title": word}}) for word in WORDS])
RAW = form([f"{word} {n} {other}" for n, word in enumerate(WORDS) for other in WORDS])


@pytest.mark.parametrize(
    ("learnt", "asked", "fits"),
    [
        ([TEMPLATED], TEMPLATED, True),
        ([TEMPLATED], form([TEMPLATE.format("one")]), True),  # a single row
        ([TEMPLATED], form(['{"item": 1}']), False),
        ([TEMPLATED], STATES, False),
        ([TEMPLATED, STATES], STATES, True),  # its base learnt from them
        ([TEMPLATED], form([TEMPLATE.format(word) for word in WORDS], system="File items."), False),
        ([RAW], RAW, True),
        ([RAW], form(["give 1 a", "what else"]), True),
        ([RAW], form(["unseen and alone"]), True),  # too few to be of a form
        ([RAW], STATES, False),
        ([form(["a", "b"])], STATES, True),  # too few were learnt from
        ([], STATES, True),
    ],
)
def test_prompts_of_another_form(learnt: list[PromptForm], asked: PromptForm, fits: bool) -> None:
    assert (find_mismatch(learnt, asked) is None) is fits


def test_the_refusal_says_how_both_begin() -> None:
    told = find_mismatch([TEMPLATED], STATES)
    assert told is not None
    assert told.startswith("""the prompts begin with '{"item": {"title": "', but the model learnt from prompts that""")
    assert r"""begin with 'File this item.\n\nItem: '; give rows of the same prompts""" in told
    assert find_mismatch([TEMPLATED], None) is None


def test_nothing_that_few_people_wrote_stands_beside_the_weights(tmp_path: Path) -> None:
    write_forms(tmp_path, [form([*(f"secret {n}" for n in range(3)), *(TEMPLATE.format(word) for word in WORDS * 3)])])
    assert (
        "secret" not in (tmp_path / PROMPTS_FILE).read_text() and "File this" in (tmp_path / PROMPTS_FILE).read_text()
    )
    assert read_forms(tmp_path, None, tmp_path / "none")[0].rows == 63


@pytest.mark.django_db
def test_commands_runs_and_suites_refuse_and_nothing_is_started(
    agent: Any, by: Any, api: Any, store: Path, tmp_path: Path
) -> None:
    """A model that learnt from the template, and rows of another form."""
    from jobs.models import Job
    from training.models import EvaluationSuite, TrainingRun

    version = ModelVersionFactory(registered_model=agent.registered_model)
    AliasFactory(registered_model=agent.registered_model, version=version)
    folder = artifact_path(version.stored.digest)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    write_forms(folder, [TEMPLATED])
    rows = labelled(24, 1)
    templated = [row | {"prompt": TEMPLATE.format(row["prompt"])} for row in labelled(24, 2)]
    plain = import_labelled(by=by, agent=agent, name="plain", rows=rows)
    taught = import_labelled(by=by, agent=agent, name="taught", rows=templated)
    says = "but the model learnt from prompts that begin with 'File this item."

    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit) as ended:
        call_command("evaluate", "--model", str(folder), "--test-data", str(file), stderr=(err := io.StringIO()))
    assert ended.value.code == 2 and err.getvalue().startswith("--test-data: the prompts") and says in err.getvalue()

    app = api("admin")
    body = {"agent": "filer", "method": "sft", "dataset": str(taught.id), "base_version": str(version.id)}
    answer = app.post("/api/v1/runs", body | {"heldout": str(plain.id)})
    assert answer.status_code == 400, answer.content
    [fault] = [one for one in answer.json()["error"]["fields"] if one["field"] == "heldout"]
    assert says in fault["reason"] and not TrainingRun.objects.exists()

    suite = app.post("/api/v1/suites", {"agent": "filer", "name": "plain", "dataset": str(plain.id)})
    assert suite.status_code == 201 and not Job.objects.exists()  # the champion does not answer it
    answer = app.post(f"/api/v1/suites/{suite.json()['id']}/scores", {"version": str(version.id)})
    assert answer.status_code == 409 and says in answer.json()["error"]["message"]
    assert EvaluationSuite.objects.count() == 1 and not Job.objects.exists()


def test_of_a_chat_the_last_question_tells_the_form() -> None:
    """All of them begin with the same system prompt, which says nothing of what is asked."""

    def chats(*turns: str, system: bool = True) -> PromptForm:
        told = {"role": "system", "content": "You file notes."}
        prompts = [
            Prompt(
                f"System: You file notes.\n\nUser: {turn}",
                "",
                (*[told][: int(system)], {"role": "user", "content": turn}),
            )
            for turn in turns
        ]
        found = form_of(prompts)
        assert found is not None
        return found

    turns = [f"{word} {n} {other}" for n, word in enumerate(WORDS) for other in WORDS]
    assert chats(*turns, system=False) == RAW and not chats(*turns).is_fixed
    templated = chats(*[TEMPLATE.format(word) for word in WORDS])
    assert templated == form([TEMPLATE.format(word) for word in WORDS], system="You file notes.")
