"""The form that starts an experiment."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from decisions.agents.revising import revise_agent
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import Alias, Experiment, ExperimentGroup
from project.pages.registry.forms import PRESETS, DurationField, Preset, write_duration
from tests.project.registry.experiment_world import at, consume
from tools.factories import GateVerdictFactory, ModelVersionFactory
from workspaces.models import AuditEntry


class TestTry:
    @pytest.fixture
    def given(self, versions: list[Any], admin: Any, page_client: Any) -> dict[str, Any]:
        """What the form shows first."""
        form = page_client(admin).get(at("version-try", versions[1])).context["form"]
        values = {name: form[name].value() or "" for name in form.fields if name not in ("also", "agent_version")}
        return values | {"reason": "a better one"}

    def test_its_first_values_are_the_defaults_of_the_api(
        self, given: dict[str, Any], versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        answer = page_client(admin).post(at("version-try", versions[1]), given)
        experiment = Experiment.objects.get()
        assert answer["Location"] == at("experiment", experiment)
        plan = ExperimentPlan()
        for name in ("promote_e", "rollback_e", "min_units_per_arm", "min_seconds", "exposure_window_seconds"):
            assert getattr(experiment, name) == getattr(plan, name), name
        assert (experiment.guardrail_e, experiment.missing) == (plan.guardrail_e, plan.missing)
        assert experiment.guardrails == [one.as_stored() for one in plan.guardrails]
        phase = experiment.phases.get()
        assert phase.treatment_share == plan.treatment_share
        assert phase.attribution_window_seconds == plan.attribution_window_seconds
        assert AuditEntry.objects.filter(actor=admin.email, action="experiment.started").count() == 1

    def test_what_is_written_is_what_starts(
        self, given: dict[str, Any], versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        changes = {"name": "a try", "min_seconds": "90 min", "treatment_share": "0.1", "latency": "", "error_rate": ""}
        page_client(admin).post(at("version-try", versions[1]), {**given, **changes})
        experiment = Experiment.objects.get()
        assert (experiment.name, experiment.min_seconds) == ("a try", 5400.0)
        assert [one["measure"] for one in experiment.guardrails] == ["missing_feedback"]
        assert experiment.phases.get().treatment_share == 0.1

    def test_a_ramp_and_a_window_that_finds_itself(
        self, given: dict[str, Any], versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        changes = {"treatment_share": "0.05", "ramp": "0.25, 0.5", "attribution_window_seconds": "auto"}
        client = page_client(admin)
        wrong = client.post(at("version-try", versions[1]), {**given, **changes, "ramp": "0.5, 0.25"})
        assert "must grow" in " ".join(wrong.context["form"].errors["ramp"]) and not Experiment.objects.exists()
        client.post(at("version-try", versions[1]), {**given, **changes})
        experiment = Experiment.objects.get()
        assert (experiment.ramp, experiment.attribution_auto) == ([0.25, 0.5], True)
        assert experiment.phases.get().attribution_window_seconds == 86_400.0

    @pytest.mark.slow
    def test_versions_at_the_same_time_have_a_page(
        self, given: dict[str, Any], agent: Any, versions: list[Any], by: Any, admin: Any, page_client: Any
    ) -> None:
        """Two versions of the model and one of the agent: each of the model's is tried with the agent's."""
        more = ModelVersionFactory(registered_model=versions[1].registered_model)
        kept = revise_agent(by=by, agent=agent, expected=1, changes={"epsilon": 0.3}, acts=False).version
        client, path = page_client(admin), at("version-try", versions[1])
        form = client.get(path).context["form"]
        assert [label for _, label in form["also"].field.choices] == [str(more)]
        chosen = {**given, "name": "", "also": [str(more.pk)], "agent_version": [str(kept.pk)]}
        assert client.post(path, {**chosen, "estimate": "1"}).context["outlook"] is not None
        answer = client.post(path, chosen)
        group = ExperimentGroup.objects.get()
        assert answer["Location"] == at("experiment-group", group)
        names = list(group.experiments.order_by("lane_low").values_list("name", flat=True))
        assert names == [f"{one} with filer v2 against {versions[0]} with filer v1" for one in (versions[1], more)]
        page = client.get(at("experiment-group", group)).content.decode()
        assert all(name in page for name in names) and "50.0%" in page
        assert "No version is shown to be better yet" in page
        assert str(group) in client.get(at("experiment", group.experiments.first())).content.decode()
        stopped = client.post(at("experiment-group-stop", group), {"reason": "enough"}, follow=True)
        assert "All of them are over" in stopped.content.decode()
        assert set(group.experiments.values_list("state", flat=True)) == {"stopped"}
        assert client.get(at("experiment-group-status", group)).status_code == 286

    def test_a_version_of_an_agent_is_chosen_and_named(
        self, given: dict[str, Any], agent: Any, versions: list[Any], by: Any, admin: Any, page_client: Any
    ) -> None:
        """The champion answers in both arms, which differ in the agent's version."""
        tried = revise_agent(by=by, agent=agent, expected=1, changes={"options": ["a", "b"]}, acts=False).version
        revise_agent(by=by, agent=agent, expected=1, changes={"action_space": "ranking"}, acts=False)
        client, path = page_client(admin), at("version-try", versions[0])
        asked = client.get(f"{path}?agent_version={tried.pk}")
        field = asked.context["form"]["agent_version"]
        assert [label for _, label in field.field.choices] == ["filer v2 (differs in: options)"]
        assert field.value() == [str(tried.pk)] and "is the champion" in asked.content.decode()
        alone = client.post(path, given)
        assert alone.status_code == 400 and not Experiment.objects.exists()
        chosen = {**given, "name": "", "agent_version": str(tried.pk)}
        assert client.post(path, {**chosen, "estimate": "1"}).context["outlook"] is not None
        client.post(path, chosen)
        experiment = Experiment.objects.get()
        assert (experiment.name, experiment.conditioned) == ("filer v2 against filer v1", False)
        consume(experiment, 120)
        shown = client.get(at("experiment", experiment))
        assert [(one["version"], one["setup"]) for one in shown.context["arms"]] == [
            (versions[0], "filer v1"), (versions[0], "filer v2"),
        ]  # fmt: skip
        text = shown.content.decode()
        assert "filer v2 differs from filer v1 in: options" in text and "do not choose from the same options" in text
        stopped = client.post(at("experiment-stop", experiment), {"reason": "enough"}, follow=True)
        assert "filer v1 serves all units, and filer v2 may be tried again" in stopped.content.decode()

    @pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.key)
    @pytest.mark.quick_cases(1)
    def test_every_preset_starts_as_it_says(
        self, preset: Preset, versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        client, path = page_client(admin), at("version-try", versions[1])
        answer = client.get(f"{path}?preset={preset.key}")
        form = answer.context["form"]
        assert f'href="?preset={preset.key}" aria-current="true"' in answer.content.decode()
        for name, value in preset.values.items():
            assert form[name].value() == value
        given = {name: form[name].value() or "" for name in form.fields if name not in ("also", "agent_version")}
        assert client.post(path, given | {"reason": "a better one"}).status_code == 302
        experiment = Experiment.objects.get()
        said = {"careful": (0.1, 100.0, 604_800.0, 500), "quick": (0.5, 40.0, 86_400.0, 200)}
        bounds = (experiment.promote_e, experiment.min_seconds, experiment.min_units_per_arm)
        share = experiment.phases.get().treatment_share
        assert (share, *bounds) == said.get(preset.key, (0.5, 40.0, 604_800.0, 500))

    @pytest.mark.parametrize(
        ("changes", "field", "says"),
        [
            ({"treatment_share": "1"}, "treatment_share", "must be above 0"),
            ({"promote_e": "1", "min_seconds": "soon"}, "promote_e", "no evidence"),
            ({"min_seconds": "soon"}, "min_seconds", "Enter a number"),
            ({"exposure_window_seconds": "31 d"}, "exposure_window_seconds", "must be 0 to 30 days"),
            ({"error_rate": "", "latency": "2"}, "latency", "must be above 0"),
            ({"budget_ms": ""}, "budget_ms", "missing or out of range"),
            ({"min_units_per_arm": "0"}, "min_units_per_arm", "out of range"),
            ({"reason": " "}, "reason", "required"),
        ],
    )
    @pytest.mark.quick_cases(3)
    def test_each_fault_stands_beside_its_field_and_nothing_starts(
        self,
        changes: dict[str, Any],
        field: str,
        says: str,
        given: dict[str, Any],
        versions: list[Any],
        admin: Any,
        page_client: Any,
    ) -> None:
        answer = page_client(admin).post(at("version-try", versions[1]), {**given, **changes})
        assert answer.status_code == 400 and says in " ".join(answer.context["form"].errors[field])
        assert ('<details class="panel all-bounds" open>' in answer.content.decode()) == (
            field not in ("treatment_share", "reason")
        )
        assert not Experiment.objects.exists() and not Alias.objects.filter(name="challenger").exists()

    def test_a_version_that_its_gate_refuses_is_not_started(
        self, given: dict[str, Any], versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        GateVerdictFactory(version=versions[1], against=versions[0], passed=False)
        client = page_client(admin)
        assert "Start an experiment" not in client.get(at("version", versions[1])).content.decode()
        answer = client.post(at("version-try", versions[1]), given)
        assert answer.status_code == 409 and "is not shown to be better" in answer.content.decode()
        assert not Experiment.objects.exists()

    def test_one_at_a_time(
        self, given: dict[str, Any], experiment: Experiment, versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        answer = page_client(admin).post(at("version-try", versions[1]), given)
        assert answer.status_code == 409 and "stop it first" in answer.content.decode()
        assert Experiment.objects.count() == 1

    def test_the_list_names_what_may_be_tried_until_it_was(
        self, given: dict[str, Any], versions: list[Any], viewer: Any, admin: Any, page_client: Any
    ) -> None:
        GateVerdictFactory(version=versions[1], against=versions[0])
        path, start = reverse("pages:experiments", args=[versions[0].workspace.slug]), at("version-try", versions[1])
        shown = {person: page_client(person).get(path) for person in (viewer, admin)}
        for person, page in shown.items():
            assert "No experiments yet" in page.content.decode() and page.context["candidates"] == [versions[1]]
            assert (start in page.content.decode()) is (person == admin)
        offered = "Start an experiment"
        assert offered in page_client(admin).get(at("version", versions[1])).content.decode()
        assert offered not in page_client(viewer).get(at("version", versions[1])).content.decode()
        assert page_client(admin).post(start, given).status_code == 302
        assert page_client(admin).get(path).context["candidates"] == []

    @pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_others_see_no_form_and_start_nothing(
        self, persona: str, status: int, given: dict[str, Any], versions: list[Any], page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert client.get(at("version-try", versions[1])).status_code == status
        assert client.post(at("version-try", versions[1]), given).status_code == status
        assert not Experiment.objects.exists()


@pytest.mark.parametrize(
    ("seconds", "written"), [(604800, "7 d"), (5400, "90 min"), (86_400, "1 d"), (0, "0 s"), (0.5, "0.5 s")]
)
def test_a_length_of_time_is_read_as_it_is_written(seconds: float, written: str) -> None:
    assert write_duration(seconds) == written
    assert DurationField().clean(written) == seconds
