"""The form that starts a run: the same plan as the API's, and every fault beside its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from tools.factories import DatasetSnapshotFactory, ModelVersionFactory, RewardSpecFactory, TrainingRunFactory
from training.models import TrainingRun
from workspaces.models import AuditEntry


@pytest.fixture
def path(workspace: Any) -> str:
    return reverse("pages:run-start", args=[workspace.slug])


@pytest.fixture
def labelled(agent: Any) -> Any:
    return DatasetSnapshotFactory(agent=agent, name="taught", rows=12)


@pytest.fixture
def given(agent: Any, labelled: Any) -> dict[str, Any]:
    """What starts a pretrain run."""
    return {"agent": str(agent.id), "method": "pretrain", "dataset": str(labelled.id), "base": "tiny"}


def test_an_admin_starts_a_run_as_the_api_would(
    given: dict[str, Any], labelled: Any, admin: Any, path: str, page_client: Any
) -> None:
    more = json.dumps({"text_weight": 0.5, "optimiser": {"weight_decay": 0.0}})
    answer = page_client(admin).post(
        path, {**given, "heldout": str(labelled.id), "learning_rate": "0.01", "seed": "7", "more": more}
    )
    run = TrainingRun.objects.get()
    assert answer["Location"] == reverse("pages:run", args=[run.workspace.slug, run.id])
    assert (run.method, run.dataset, run.heldout, run.base_model) == ("pretrain", labelled, labelled, "tiny")
    assert run.requested_by == admin.email and Job.objects.get(id=run.job_id).state == "queued"
    assert run.spec["optimiser"] == {"weight_decay": 0.0, "learning_rate": 0.01}
    assert (run.spec["seed"], run.spec["text_weight"]) == (7, 0.5)
    assert AuditEntry.objects.filter(actor=admin.email, action="run.started").count() == 1


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"learning_rate": "7"}, "learning_rate", "less than or equal to 1"),
        ({"epochs": "0"}, "epochs", "greater than or equal to 1"),
        ({"method": "posterior"}, "dataset", "cannot learn from labelled rows"),
        ({"method": "grpo"}, "base", "cannot begin with a new model"),
        ({"lora_r": "8"}, "more", "trains no adapter"),
        ({"more": '{"optimiser": {"speed": 1}}'}, "more", "optimiser.speed"),
        ({"more": "{"}, "more", "Enter valid JSON"),
        ({"more": "[1]"}, "more", "Enter a JSON object"),
        ({"agent": ""}, "agent", "required"),
        ({"epochs": "many"}, "epochs", "whole number"),
    ],
)
@pytest.mark.quick_cases(3)
def test_each_fault_stands_beside_its_field_and_nothing_starts(
    changes: dict[str, Any], field: str, says: str, given: dict[str, Any], admin: Any, path: str, page_client: Any
) -> None:
    answer = page_client(admin).post(path, {**given, **changes})
    assert answer.status_code == 400
    assert says in " ".join(answer.context["form"].errors[field])
    assert not TrainingRun.objects.exists() and not Job.objects.exists()


def test_faults_of_fields_and_of_the_plan_are_listed_together_and_lead_to_their_fields(
    given: dict[str, Any], admin: Any, path: str, page_client: Any
) -> None:
    answer = page_client(admin).post(path, {**given, "epochs": "many", "batch_size": "0", "more": "{"})
    assert set(answer.context["form"].errors) == {"epochs", "batch_size", "more"}
    summary = answer.content.decode().partition('id="faults"')[2].partition("</div>")[0]
    assert "The run was not started." in summary
    assert all(f'href="#id_{name}"' in summary for name in ("epochs", "batch_size", "more"))
    assert answer.context["form"]["epochs"].value() == "many" and not TrainingRun.objects.exists()


def test_rows_and_versions_of_elsewhere_cannot_be_chosen(
    given: dict[str, Any], admin: Any, path: str, page_client: Any
) -> None:
    elsewhere = {"dataset": DatasetSnapshotFactory(), "base": ModelVersionFactory()}
    for field, row in elsewhere.items():
        answer = page_client(admin).post(path, {**given, field: str(row.id)})
        assert answer.status_code == 400 and field in answer.context["form"].errors
    assert not TrainingRun.objects.exists()


def test_an_online_method_is_rewarded_by_the_known_answer_unless_said_otherwise(
    given: dict[str, Any], agent: Any, admin: Any, path: str, page_client: Any
) -> None:
    base = ModelVersionFactory(registered_model=agent.registered_model)
    online = {**given, "method": "grpo", "base": str(base.id), "steps": "5"}
    page_client(admin).post(path, online)
    changes = {"more": '{"reward": [{"name": "matches_answer", "weight": 2.0}]}', "curriculum": "uncertain"}
    page_client(admin).post(path, {**online, **changes})
    first, second = TrainingRun.objects.order_by("id")
    assert first.spec["online"] == {"steps": 5} and first.spec["reward"] == [{"name": "matches_answer"}]
    assert second.spec["reward"] == [{"name": "matches_answer", "weight": 2.0}]
    assert second.spec["online"] == {"steps": 5, "curriculum": {"order": "uncertain"}}


def test_running_again_shows_what_was_asked_and_asks_for_the_same(
    agent: Any, admin: Any, path: str, page_client: Any
) -> None:
    logged = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=RewardSpecFactory(agent=agent))
    base = ModelVersionFactory(registered_model=agent.registered_model)
    spec = {"method": "posterior", "posterior": {"folds": 4}, "optimiser": {"epochs": 2}, "lora": {"r": 4}, "seed": 3}
    run = TrainingRunFactory(
        agent=agent, method="posterior", dataset=logged, base_version=base, base_model="", spec=spec
    )
    client = page_client(admin)
    form = client.get(f"{path}?like={run.id}").context["form"]
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    assert (shown["epochs"], shown["lora_r"], shown["seed"]) == (2, 4, 3)
    assert json.loads(shown["more"]) == {"posterior": {"folds": 4}}
    client.post(path, shown)
    again = TrainingRun.objects.exclude(id=run.id).get()
    assert (again.dataset, again.base_version, again.method) == (logged, base, "posterior")
    assert {name: again.spec[name] for name in spec} == spec


def test_what_a_changed_form_needs_is_told_and_nothing_starts(
    given: dict[str, Any], admin: Any, path: str, page_client: Any
) -> None:
    client, headers = page_client(admin), {"HX-Request": "true"}
    fine = client.post(path, {**given, "check": "1"}, headers=headers)
    assert fine.status_code == 200 and fine.context["estimate"].seconds > 0
    wrong = client.post(path, {**given, "check": "1", "method": "posterior"}, headers=headers)
    needs = wrong.content.decode().partition('id="run-aside"')[2]
    assert wrong.status_code == 200 and "Fix these before it starts" in needs and "cannot start yet" in needs
    assert not TrainingRun.objects.exists() and not Job.objects.exists()


def test_a_preset_fills_the_form_and_how_an_adapter_is_needs_a_rank(
    agent: Any, admin: Any, path: str, page_client: Any
) -> None:
    ModelVersionFactory(registered_model=agent.registered_model)
    texts = DatasetSnapshotFactory(agent=agent, kind="text", rows=30)
    client = page_client(admin)
    plain = client.get(f"{path}?dataset={texts.id}").content.decode()
    assert f"dataset={texts.id}&amp;preset=reward-weighted-lora" in plain
    form = client.get(f"{path}?dataset={texts.id}&preset=reward-weighted-lora").context["form"]
    shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    assert (shown["lora_r"], shown["lora_targets"], shown["lora_dropout"]) == (8, "query-value", 0.1)
    refused = client.post(path, {**shown, "lora_r": ""})
    assert refused.status_code == 400 and set(refused.context["form"].errors) == {"lora_targets", "lora_dropout"}
    assert not TrainingRun.objects.exists()
    assert client.post(path, shown).status_code == 302
    run = TrainingRun.objects.get()
    assert run.spec["lora"] == {"r": 8, "alpha": 16, "dropout": 0.1, "targets": "query-value"}
    assert (run.method, run.spec["optimiser"]["batch_size"], run.spec["optimiser"]["epochs"]) == (
        "reward_weighted",
        1,
        3,
    )


def test_the_form_says_which_methods_the_data_suits_and_why_not_the_others(
    agent: Any, labelled: Any, admin: Any, path: str, page_client: Any
) -> None:
    ModelVersionFactory(registered_model=agent.registered_model)
    logged = DatasetSnapshotFactory(
        agent=agent,
        kind="logged",
        reward_spec=RewardSpecFactory(agent=agent),
        statistics={"without_propensity": 3, "mean_reward": 1.0, "unjudged": 2},
    )
    found, leaves_out = {}, {}
    for dataset in (labelled, logged):
        shown = page_client(admin).get(f"{path}?dataset={dataset.id}").context["suited"]
        found[dataset] = {one.method.name: one.why_not for one in shown}
        leaves_out[dataset] = {one.method.name: one.leaves_out for one in shown}
    suited = [name for name, why in found[labelled].items() if not why]
    assert suited == ["pretrain", "classifier", "sft", "reward_model", "grpo", "ppo"]
    assert found[labelled]["dpo"] == "learns from pairs of a better and a worse answer"
    assert found[logged]["posterior"] == "" and found[logged]["all_action"] == "3 of its rows have no propensity"
    assert found[logged]["kto"] == "all its rows were right"
    assert (leaves_out[logged]["posterior"], leaves_out[logged]["reward_weighted"]) == (0, 2)
    assert not any(leaves_out[labelled].values())


def test_wrong_rows_weigh_what_the_form_says_where_the_method_knows_of_them(
    agent: Any, given: dict[str, Any], admin: Any, path: str, page_client: Any
) -> None:
    """And methods that are weak on logs are offered after the others."""
    base = ModelVersionFactory(registered_model=agent.registered_model)
    logged = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=RewardSpecFactory(agent=agent))
    client = page_client(admin)
    suited = [one.method for one in client.get(f"{path}?dataset={logged.id}").context["suited"] if not one.why_not]
    assert [method.name for method in suited if "logged" in method.offered_last_for] == [suited[-1].name] == ["grpo"]
    for method in ("kto", "posterior"):
        asked = {"method": method, "dataset": str(logged.id), "base": str(base.id), "undesirable_weight": "0.3"}
        assert client.post(path, given | asked).status_code == 302
    of_kto, of_posterior = TrainingRun.objects.order_by("id")
    assert of_kto.spec["kto"] == {"undesirable_weight": 0.3} and "kto" not in of_posterior.spec
    refused = client.post(path, given | asked | {"method": "kto", "undesirable_weight": "11"})
    assert refused.status_code == 400 and "undesirable_weight" in refused.context["form"].errors


def test_a_classifier_has_its_own_fields_and_none_of_a_language_model(
    given: dict[str, Any], admin: Any, path: str, page_client: Any
) -> None:
    client = page_client(admin)
    asked = given | {"method": "classifier", "base": "words", "penalty": "8", "lora_r": "4", "epochs": "9"}
    asked["more"] = '{"lora": {"alpha": 16}, "optimiser": {"accumulate": 2}}'  # of the method that the form opened with
    assert client.post(path, asked).status_code == 302
    run = TrainingRun.objects.get()
    assert run.spec["classifier"] == {"penalty": 8.0} and not run.spec.keys() & {"lora", "optimiser"}
    shown = client.get(f"{path}?like={run.id}").context["form"].initial
    assert shown["penalty"] == 8.0 and "epochs" not in shown
    refused = client.post(path, asked | {"penalty": "-1"})
    assert refused.status_code == 400 and "penalty" in refused.context["form"].errors


@pytest.mark.parametrize("kind", ["labelled", "text"])
def test_what_was_held_out_of_the_data_is_what_its_run_is_measured_on(
    kind: str, agent: Any, labelled: Any, admin: Any, path: str, page_client: Any
) -> None:
    ModelVersionFactory(registered_model=agent.registered_model)
    whole = DatasetSnapshotFactory(agent=agent, kind=kind, query={"agent": "filer"}, rows=90)
    part = DatasetSnapshotFactory(
        agent=agent, kind=kind, query={"agent": "filer"}, statistics={"held_out_of": str(whole.id)}, rows=10
    )
    plan = page_client(admin).get(f"{path}?dataset={whole.id}").context["plan"]
    assert (plan.dataset, plan.heldout) == (whole, part)
    assert plan.method == {"labelled": "pretrain", "text": "reward_weighted"}[kind]
    other = page_client(admin).get(f"{path}?dataset={labelled.id}").context["plan"]
    assert part not in (other.heldout, other.replay)


@pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
def test_others_see_no_form_and_start_nothing(
    persona: str, status: int, given: dict[str, Any], path: str, page_client: Any, request: Any
) -> None:
    client = page_client(request.getfixturevalue(persona))
    assert client.get(path).status_code == status
    assert client.post(path, given).status_code == status
    assert not TrainingRun.objects.exists() and not Job.objects.exists()
