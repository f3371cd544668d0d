"""The judge in the form that starts a run: which can be chosen, why others cannot, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from tests.judge_model import PROMPT
from tests.task_world import tasks_of
from tools.factories import (
    AgentFactory,
    BackendFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    JudgeCalibrationFactory,
    ModelVersionFactory,
)
from training.models import TrainingRun

ONLINE = {"steps": 1, "prompts_per_step": 2, "group": 4, "alarms": None}
MORE = json.dumps({"online": ONLINE, "max_prompt_tokens": 160})


@pytest.fixture
def writing(agent: Any) -> Any:
    return tasks_of(agent, "writing")


@pytest.fixture
def path(workspace: Any) -> str:
    return reverse("pages:run-start", args=[workspace.slug])


@pytest.fixture
def given(agent: Any, writing: Any, settings: Any) -> dict[str, str]:
    """What starts a run with a judge."""
    settings.BACKEND_URLS = ["http://127.0.0.1:9"]
    BackendFactory(workspace=agent.workspace, name="judges")
    JudgeCalibrationFactory(agent=agent, calibrated=True)
    base = ModelVersionFactory(registered_model=agent.registered_model)
    return {
        "agent": str(agent.id),
        "method": "grpo",
        "dataset": str(writing.id),
        "base": str(base.id),
        "more": MORE,
        "judge": f"{agent.id}:helpful",
        "judge_backend": "judges",
        "judge_model": "judge-1",
        "judge_share": "0.25",
        "judge_prompt": PROMPT,
    }


def test_those_that_may_be_used_can_be_chosen_and_the_others_are_named_with_the_reason(
    agent: Any, given: dict[str, str], writing: Any, admin: Any, path: str, page_client: Any
) -> None:
    JudgeCalibrationFactory(agent=agent, metric="polite")
    JudgeCalibrationFactory(agent=agent, metric="polite", verdict="drifted", reasons=["It errs otherwise."])
    FeedbackFactory(decision=DecisionFactory(agent=agent), metric="brief", source="llm", value=0.5)
    other = AgentFactory(workspace=agent.workspace, name="Sorter")
    JudgeCalibrationFactory(agent=other, metric="tidy", calibrated=True)
    JudgeCalibrationFactory(agent=AgentFactory(), metric="of elsewhere", calibrated=True)
    answer = page_client(admin).get(path, {"dataset": str(writing.id)})
    form, text = answer.context["form"], answer.content.decode()
    assert form["judge"].value() is None  # off
    assert form.fields["judge"].choices == [
        ("", "None"),
        (agent.name, [(f"{agent.id}:helpful", "helpful, α 0.81, 160 labels")]),
        ("Sorter", [(f"{other.id}:tidy", "tidy, α 0.81, 160 labels")]),
    ]
    named = text.partition('id="judges-unusable"')[2].partition("</fieldset>")[0]
    assert ">polite</span>: drifted. It errs otherwise.<" in named
    assert ">brief</span>: never calibrated against people.<" in named
    assert "tidy" not in named and "helpful" not in named and "of elsewhere" not in text
    # The style sheet shows the fields by these marks.
    assert f'<option value="{writing.id}" selected data-judged>' in text
    assert 'value="grpo" selected data-acts>' in text and 'value="reward_weighted" data-acts>' in text


def test_without_tasks_that_a_judge_can_score_there_are_no_such_fields(
    agent: Any, admin: Any, path: str, page_client: Any
) -> None:
    ModelVersionFactory(registered_model=agent.registered_model)
    JudgeCalibrationFactory(agent=agent, calibrated=True)
    equations = tasks_of(agent, "equations")
    text = page_client(admin).get(path, {"dataset": str(equations.id)}).content.decode()
    assert "equations, 4 tasks" in text and "judge" not in text.lower().replace("judges the version", "")


def test_a_run_gets_the_judge_as_by_the_api_and_shows_it_when_it_is_run_again(
    agent: Any, given: dict[str, str], admin: Any, path: str, page_client: Any
) -> None:
    client = page_client(admin)
    assert client.post(path, given).status_code == 302
    run = TrainingRun.objects.get()
    wanted = {"metric": "helpful", "backend": "judges", "model": "judge-1", "share": 0.25, "prompt": PROMPT}
    assert run.spec["judge"] == wanted
    form = client.get(path, {"like": str(run.id)}).context["form"]
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    assert {name: str(shown[name]) for name in given if name.startswith("judge")} == {
        name: value for name, value in given.items() if name.startswith("judge")
    }
    assert "judge" not in json.loads(shown["more"])
    client.post(path, shown)
    assert TrainingRun.objects.exclude(id=run.id).get().spec["judge"] == wanted

    # Without one nothing is judged, whatever stands in the other fields; nor where the method has no tasks.
    client.post(path, given | {"judge": "", "judge_share": "7"})
    labelled = DatasetSnapshotFactory(agent=agent, rows=12)
    client.post(path, given | {"method": "pretrain", "dataset": str(labelled.id), "base": "tiny", "more": ""})
    assert ["judge" in one.spec for one in TrainingRun.objects.order_by("id")] == [True, True, False, False]

    # One that has drifted since stays in the form, so that it is refused by name.
    JudgeCalibrationFactory(agent=agent, verdict="drifted", reasons=["It errs otherwise."])
    form = client.get(path, {"like": str(run.id)}).context["form"]
    assert form.fields["judge"].choices[1][1] == [(given["judge"], "helpful, drifted")]


def test_each_fault_stands_beside_its_field_the_values_stay_and_nothing_starts(
    agent: Any, given: dict[str, str], admin: Any, path: str, page_client: Any
) -> None:
    JudgeCalibrationFactory(agent=agent, metric="polite", verdict="drifted", reasons=["It errs otherwise."])
    other = AgentFactory(workspace=agent.workspace, name="Sorter")
    JudgeCalibrationFactory(agent=other, metric="tidy", calibrated=True)
    BackendFactory(workspace=agent.workspace, name="elsewhere", url="http://elsewhere/v1")
    raw = {"judge": {"metric": "polite", "backend": "judges", "model": "m", "prompt": PROMPT}}
    client = page_client(admin)
    for changes, field, says in (
        ({"judge": f"{agent.id}:polite"}, "judge", "polite is drifted: It errs otherwise."),
        ({"judge": f"{agent.id}:unknown"}, "judge", "unknown was never calibrated against people."),
        ({"judge": f"{other.id}:tidy"}, "judge", "It judges Sorter. Choose a judge of the run’s agent."),
        ({"judge": "helpful"}, "judge", "Select a valid choice"),
        ({"judge_backend": "", "judge_model": ""}, "judge_backend", "Choose the server that answers as the judge."),
        ({"judge_backend": "elsewhere"}, "judge_backend", "the address http://elsewhere is not allowed here"),
        ({"judge_model": " "}, "judge_model", "Enter the name of the judge’s model on its server."),
        ({"judge_share": "1.5"}, "judge_share", "less than or equal to 1"),
        ({"judge_prompt": ""}, "judge_prompt", "Enter the prompt that asks the judge."),
        ({"judge_prompt": "Any good?"}, "judge_prompt", "must contain {work}"),
        ({"judge": "", "more": json.dumps(json.loads(MORE) | raw)}, "more", "judge.metric: polite is drifted"),
    ):
        answer = client.post(path, given | changes)
        form = answer.context["form"]
        assert answer.status_code == 400 and says in " ".join(form.errors[field]), (changes, form.errors)
        assert len(form.errors) == len(changes) - ("more" in changes), form.errors
        assert all(form[name].value() == value for name, value in (given | changes).items())
        assert f'id="id_{field}_error"' in answer.content.decode()
    assert not TrainingRun.objects.exists() and not Job.objects.exists()
