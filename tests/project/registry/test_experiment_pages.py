"""Pages of experiments, and the promotion of a version by hand."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Alias, Experiment, Observation
from models_registry.statistics.promotion import write_e
from tests.project.registry.experiment_world import at, consume
from tools.factories import LookFactory
from workspaces.models import AuditEntry
from workspaces.templatetags.show import signed

WORSE = {"estimate": -0.1, "low": -0.2, "high": -0.01}
WIDE = {"estimate": 0.1, "low": -0.1, "high": 0.3}


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
            (
                {"state": "futile", "futility_e": 20},
                "Undecided: filer:2 is not better by 0.05 or more. It was given up, and filer:1 serves",
            ),
            ({"state": "stopped"}, "Stopped without a winner: filer:1 serves all units"),
            ({"state": "stopped", "ended_by": "ann@example.org"}, "ann@example.org promoted filer:2 by hand"),
        ],
    )
    @pytest.mark.quick_cases(4)
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
        monkeypatch.setattr("project.pages.registry.experiments.CHART_POINTS", 4)
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
