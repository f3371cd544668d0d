"""Pages of models and experiments."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.agents.revising import revise_agent
from models_registry.experiment_plan import ExperimentPlan
from models_registry.experiments import start_experiment
from models_registry.looks import MaturedUnit, RequestCounts, consume_observations
from models_registry.models import Alias, Experiment, ExperimentGroup, Observation
from models_registry.services import NewVersion, register_version
from models_registry.statistics.promotion import write_e
from project.registry.forms import PRESETS, DurationField, Preset, write_duration
from tools.factories import (
    ArtifactFactory,
    ExposureFactory,
    GateVerdictFactory,
    LookFactory,
    ModelVersionFactory,
)
from workspaces.models import AuditEntry
from workspaces.templatetags.show import signed

WORSE = {"estimate": -0.1, "low": -0.2, "high": -0.01}
WIDE = {"estimate": 0.1, "low": -0.1, "high": 0.3}


@pytest.fixture
def versions(agent: Any, by: Any) -> list[Any]:
    """filer:1, the champion, and filer:2."""
    return [
        register_version(
            by=by,
            model=agent.registered_model,
            new=NewVersion(artifact=ArtifactFactory(workspace=agent.workspace), method=method),
        )
        for method in ("pretrain", "posterior")
    ]


@pytest.fixture
def experiment(versions: list[Any], by: Any) -> Experiment:
    return start_experiment(
        by=by, treatment=versions[1], plan=ExperimentPlan(), reason="a better one", name="posterior against base"
    )


def consume(experiment: Experiment, count: int) -> None:
    """Really consumed, in turns of the arms, the treatment a little better."""
    phase = experiment.phases.get()
    rng, matured = random.Random(4), []
    for number in range(count):
        arm = ("control", "treatment")[number % 2]
        exposure = ExposureFactory(phase=phase, arm=arm)
        outcome = float(rng.random() < (0.6 if arm == "treatment" else 0.5))
        matured.append(MaturedUnit(exposure, outcome, timezone.now(), {"error_rate": 0.0}))
    requests = RequestCounts(control=20, treatment=20, failed_treatment=1)
    consume_observations(experiment=experiment, matured=matured, requests=requests)


def at(name: str, row: Any, slug: str | None = None) -> str:
    return reverse(f"pages:{name}", args=[slug or row.workspace.slug, row.pk])


def champion(versions: list[Any]) -> int:
    return Alias.objects.get(registered_model=versions[0].registered_model, name="champion").version.number


class TestPromote:
    def test_an_admin_is_asked_first_and_the_audit_knows(
        self, versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        client = page_client(admin)
        asked = client.get(at("version-promote", versions[1]))
        assert asked.status_code == 200 and champion(versions) == 1
        done = client.post(at("version-promote", versions[1]), {"reason": "better\non notes "})
        assert done["Location"] == at("version", versions[1])
        assert champion(versions) == 2
        entry = AuditEntry.objects.get(actor=admin.email, action="alias.champion")
        assert entry.details["reason"] == "better on notes"

    def test_without_a_reason_nothing_is_promoted_and_the_form_asks_again(
        self, versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        answer = page_client(admin).post(at("version-promote", versions[1]), {"reason": " "})
        assert answer.status_code == 400 and "The reason is missing" in answer.content.decode()
        assert champion(versions) == 1

    @pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_others_are_refused(
        self, persona: str, status: int, versions: list[Any], page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert client.post(at("version-promote", versions[1])).status_code == status
        assert champion(versions) == 1

    def test_an_admin_of_elsewhere_cannot_reach_it_through_their_own_workspace(
        self, versions: list[Any], outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        path = at("version-promote", versions[1], other_workspace.slug)
        assert page_client(outsider).post(path).status_code == 404
        assert champion(versions) == 1


class TestExperiments:
    def test_the_list_shows_estimate_and_verdict(self, experiment: Experiment, viewer: Any, page_client: Any) -> None:
        Experiment.objects.update(estimate=0.0456, low=0.0123, high=0.0789, verdict="more units are needed")
        page = page_client(viewer).get(reverse("pages:experiments", args=[experiment.workspace.slug]))
        text = page.content.decode()
        assert "+0.05" in text and "[+0.01, +0.08]" in text and "more units are needed" in text

    def test_the_detail_shows_arms_and_bounds(self, experiment: Experiment, viewer: Any, page_client: Any) -> None:
        page = page_client(viewer).get(at("experiment", experiment)).content.decode()
        assert (
            "filer:1" in page
            and "filer:2" in page
            and "E⁺ ≥ 40" in page
            and "Minimum duration" in page
            and "7 d" in page
        )

    def test_the_status_is_polled_while_it_runs_and_then_no_more(
        self, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        client = page_client(viewer)
        running = client.get(at("experiment-status", experiment))
        assert running.status_code == 200 and "hx-trigger" in running.content.decode()
        Experiment.objects.update(state="promoted", ended_at=timezone.now())
        over = client.get(at("experiment-status", experiment))
        assert over.status_code == 286 and "hx-trigger" not in over.content.decode()

    def test_every_number_is_the_one_in_the_database(
        self, experiment: Experiment, versions: list[Any], viewer: Any, page_client: Any
    ) -> None:
        consume(experiment, 240)
        experiment.refresh_from_db()
        shown = page_client(viewer).get(at("experiment", experiment)).context
        control, treatment = shown["arms"]
        rows = list(Observation.objects.values_list("exposure__arm", "outcome"))
        for arm, one in (("control", control), ("treatment", treatment)):
            outcomes = [outcome for of, outcome in rows if of == arm]
            assert (one["met"], one["matured"]) == (len(outcomes), len(outcomes))
            assert one["mean"] == pytest.approx(sum(outcomes) / len(outcomes))
            assert one["share"] == pytest.approx(len(outcomes) / len(rows))
        assert (control["version"], treatment["version"]) == tuple(versions)
        assert (treatment["requests"], treatment["failed"]) == (20, 1)
        units, lacking = next(need for need in shown["needs"] if "units per arm" in need.title), 500
        assert units.says == f"{lacking - min(control['matured'], treatment['matured'])} more needed in the smaller arm"
        assert [need.met for need in shown["needs"]].count(False) == shown["lacking"]
        text = page_client(viewer).get(at("experiment", experiment)).content.decode()
        assert signed(experiment.estimate) in text and f"[{signed(experiment.low)}, {signed(experiment.high)}]" in text

    def test_the_band_ends_where_the_stored_interval_does(
        self, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        consume(experiment, 240)
        experiment.refresh_from_db()
        found = page_client(viewer).get(at("experiment-evidence", experiment)).json()["difference"]
        assert found["mean"][-1] == pytest.approx(experiment.estimate)
        assert found["low"][-1] == pytest.approx(experiment.low)
        assert found["high"][-1] == pytest.approx(experiment.high)

    def test_the_queries_do_not_grow_with_the_units(
        self, experiment: Experiment, viewer: Any, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        consume(experiment, 160)
        client = page_client(viewer)
        with django_assert_max_num_queries(18):
            client.get(at("experiment", experiment))
        with django_assert_max_num_queries(15):
            client.get(at("experiment-status", experiment))
        with django_assert_max_num_queries(10):
            client.get(reverse("pages:experiments", args=[experiment.workspace.slug]))

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({}, "No outcomes are known yet: wait for the first units to mature."),
            (
                {"units_control": 9, "units_treatment": 9},
                "It is too early to tell: wait until each arm has 50 units with an outcome.",
            ),
            ({"estimate": 0.1, "low": 0.01, "high": 0.2}, "filer:2 looks better than filer:1: leave it running"),
            (WORSE, "filer:2 looks worse than filer:1: stop it, or wait"),
            (WIDE, "No difference is shown yet: leave it running."),
            (WIDE | {"expected_seconds": 9e5}, "was expected to take 10 d 10 h."),
            (WIDE | {"expected_seconds": 0.0}, "stop it, unless an effect smaller"),
            ({"sample_ratio_mismatch": True}, "Sample ratio mismatch"),
            ({"state": "promoted"}, "filer:2 is better and was promoted: there is nothing left to do."),
            ({"state": "rolled_back"}, "filer:2 was rolled back and filer:1 serves all units: find out why"),
            ({"state": "stopped"}, "Stopped without a winner: filer:1 serves all units"),
            ({"state": "stopped", "ended_by": "ann@example.org"}, "ann@example.org promoted filer:2 by hand"),
        ],
    )
    def test_the_verdict_comes_first_in_plain_words(
        self, changes: dict[str, Any], says: str, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        if "estimate" in changes:
            changes = {**changes, "units_control": 60, "units_treatment": 60}
        if "state" in changes:
            changes = {**changes, "ended_at": timezone.now()}
        if "ended_by" in changes:
            changes = {**changes, "promoted_version": experiment.variants.get(arm="treatment").version}
        Experiment.objects.update(**changes)
        assert says in page_client(viewer).get(at("experiment", experiment)).content.decode()
        listed = page_client(viewer).get(reverse("pages:experiments", args=[experiment.workspace.slug]))
        assert says in listed.content.decode()

    @pytest.mark.parametrize(
        ("changes", "says"),
        [(WORSE, "Harm shown: E⁻ 23 has reached 20</p>"), (WIDE, "E⁻ alone decides. The interval can still contain 0")],
    )
    def test_a_verdict_beside_an_interval_that_contains_0_is_explained(
        self, changes: dict[str, Any], says: str, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        over = {"state": "rolled_back", "ended_at": timezone.now(), "verdict": "harm shown: E⁻ 23 has reached 20"}
        Experiment.objects.update(**over, **changes)
        assert says in page_client(viewer).get(at("experiment", experiment)).content.decode()

    def test_the_log_says_what_was_known_and_who_did_what_and_why(
        self, experiment: Experiment, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        consume(experiment, 160)
        client = page_client(admin)
        client.post(at("experiment-stop", experiment), {"reason": "a new prompt comes"})
        entries = client.get(at("experiment", experiment)).context["log"]
        assert [entry.title for entry in entries] == [f"Stopped by {admin.email}", "Look", "Started by system"]
        stopped, look, started = entries
        assert stopped.reasons[0] == "a new prompt comes" and started.reasons == ["a better one"]
        experiment.refresh_from_db()
        assert f"160 units with an outcome, E⁺ {write_e(experiment.log_e_plus)}" in look.figures
        assert look.reasons[0].startswith("E⁺ ")
        assert "a new prompt comes" in page_client(viewer).get(at("experiment", experiment)).content.decode()

    def test_the_log_says_what_changed_and_names_guardrails_in_words(
        self, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        lacking = [
            "E⁺ 1.2 of 40",
            "90 of 500 units with an outcome in control",
            "guardrail missing_feedback: E 1 of 20",
        ]
        for number, reasons in enumerate((lacking, ["E⁺ 2.4 of 40", *lacking[1:]], ["E⁺ 3 of 40", lacking[2]])):
            LookFactory(
                experiment=experiment,
                reasons=reasons,
                units_control=100 * number + 90,
                log_e_plus=math.log(number + 1.0),
            )
        page = page_client(viewer).get(at("experiment", experiment))
        third, second, first, started = page.context["log"]
        assert (started.title, len(first.reasons), second.reasons) == ("Started by system", 3, [])
        assert third.reasons == ["met since the last look: 90 of 500 units with an outcome in control"]
        assert first.reasons[2] == "guardrail “Units without a reward”: E 1 of 20"
        assert "290 units with an outcome (+100), E⁺ 2 → 3, E⁻ 1" in third.figures
        assert "missing_feedback" not in page.content.decode()

    def test_looks_are_kept_hourly_and_while_the_units_grow(self, experiment: Experiment) -> None:
        consume(experiment, 100)
        consume(experiment, 4)  # a twentieth would be 5
        assert [look.units_control for look in experiment.looks.filter(action="continue")] == [50]
        experiment.looks.update(at=timezone.now() - dt.timedelta(hours=1))
        consume(experiment, 2)
        consume(experiment, 8)
        looks = experiment.looks.filter(action="continue")
        assert [look.units_control + look.units_treatment for look in looks] == [114, 106, 100]

    def test_the_log_over_the_api(self, experiment: Experiment, api: Any) -> None:
        consume(experiment, 160)
        found = api("export:read").get(f"experiments/{experiment.id}/looks").json()["results"]
        assert [(look["action"], look["by"]) for look in found] == [("continue", ""), ("start", "system")]
        experiment.refresh_from_db()
        assert found[0]["log_e_plus"] == experiment.log_e_plus and found[0]["low"] == experiment.low
        assert found[0]["guardrails"] == experiment.guardrail_evidence and found[0]["phase"] == 1
        assert found[0]["reasons"] == experiment.verdict.split("; ")

    def test_the_chart_reads_the_evidence_and_the_thresholds(
        self, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        """The chart's last point, the page and the verdict are one number; the chart counts the units the arms show."""
        consume(experiment, 160)
        consume(experiment, 4)  # too few more for a row of their own
        experiment.refresh_from_db()
        client = page_client(viewer)
        found = client.get(at("experiment-evidence", experiment)).json()
        assert found["x"] == [160, 164]
        assert found["e_plus"][-1] == pytest.approx(math.exp(experiment.log_e_plus))
        assert found["plain_e_plus"][-1] == pytest.approx(math.exp(experiment.plain_log_e_plus))
        assert (found["promote_at"], found["terminal"]) == (40, False)
        page, written = client.get(at("experiment", experiment)).content.decode(), write_e(experiment.log_e_plus)
        assert f'<span class="big">{written}</span> <span class="muted">E⁺, promotes at 40</span>' in page
        assert f"E⁺ {written} of 40" in experiment.verdict and "log E" not in page
        assert f'E⁺ <span class="figure">{write_e(experiment.plain_log_e_plus)}</span>' in page

    def test_a_long_log_is_thinned_and_keeps_its_end(
        self, experiment: Experiment, viewer: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("project.registry.experiments.CHART_POINTS", 4)
        for units in (*range(1, 10), 9):
            LookFactory(experiment=experiment, units_control=units)
        Experiment.objects.update(units_control=12)
        found = page_client(viewer).get(at("experiment-evidence", experiment)).json()
        assert found["x"] == [1, 4, 7, 12]

    @pytest.mark.parametrize("name", ["experiment", "experiment-status", "experiment-evidence", "experiment-stop"])
    def test_an_outsider_finds_nothing(
        self, name: str, experiment: Experiment, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        assert client.get(at(name, experiment)).status_code == 404
        assert client.get(at(name, experiment, other_workspace.slug)).status_code == 404

    def test_an_admin_stops_it_once(self, experiment: Experiment, admin: Any, page_client: Any) -> None:
        client = page_client(admin)
        assert client.get(at("experiment-stop", experiment)).status_code == 200
        experiment.refresh_from_db()
        assert experiment.state == "running"
        reason = {"reason": "a new prompt comes"}
        assert client.post(at("experiment-stop", experiment), reason)["Location"] == at("experiment", experiment)
        experiment.refresh_from_db()
        assert experiment.state == "stopped"
        assert experiment.verdict.startswith("a new prompt comes") and experiment.ended_by == admin.email
        assert client.post(at("experiment-stop", experiment), reason).status_code == 409

    def test_an_admin_changes_the_share_and_the_ramp_says_what_it_waits_for(
        self, versions: list[Any], by: Any, admin: Any, page_client: Any
    ) -> None:
        plan = ExperimentPlan(treatment_share=0.05, ramp=(0.25, 0.5))
        experiment = start_experiment(by=by, treatment=versions[1], plan=plan, reason="a better one")
        client = page_client(admin)
        shown = client.get(at("experiment", experiment))
        assert shown.context["ramp"] == {"share": 0.25, "waits": ["0 of 250 matured units in this phase"]}
        asked = client.post(at("experiment-share", experiment), {"treatment_share": "0.3", "reason": ""})
        assert asked.status_code == 400 and experiment.phases.count() == 1
        same = client.post(at("experiment-share", experiment), {"treatment_share": "0.05", "reason": "why not"})
        assert same.status_code == 400 and "already" in same.content.decode() and experiment.phases.count() == 1
        given = {"treatment_share": "0.3", "reason": "the release has settled"}
        assert client.post(at("experiment-share", experiment), given)["Location"] == at("experiment", experiment)
        page = client.get(at("experiment", experiment))
        assert page.context["ramp"]["share"] == 0.5
        assert [entry.title for entry in page.context["log"]] == [
            f"Share changed by {admin.email}",
            "Started by system",
        ]

    @pytest.mark.parametrize("persona", ["viewer", "labeller"])
    def test_lower_roles_see_no_button_and_are_refused(
        self, persona: str, experiment: Experiment, page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert at("experiment-stop", experiment) not in client.get(at("experiment", experiment)).content.decode()
        assert client.post(at("experiment-stop", experiment)).status_code == 403
        experiment.refresh_from_db()
        assert experiment.state == "running"


class TestTry:
    """The form that starts an experiment."""

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
