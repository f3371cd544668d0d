"""What the home page asks a person to do (label, promote, try a version), most valuable first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.db.models import Q

from decisions.queries.first_labels import FirstLabels
from models_registry.models import ExperimentState, GateKind
from models_registry.versions.gates import read_gate
from project.pages.home.counts import LedgerCounts
from project.pages.home.items import Item, page_url
from project.pages.home.rows import Rows
from training.runs.new_decisions import FEW
from workspaces.models import ApiKey, Membership, Role, Workspace
from workspaces.templatetags.show import points

LONG_UNDECIDED = 4
"""An experiment with this many times the units and the age it needs, and no verdict, wants a person's decision."""
MOST_MEMBERS = 5


def find_needs(
    workspace: Workspace, rows: Rows, ledger: LedgerCounts, now: dt.datetime, first: Sequence[FirstLabels] = ()
) -> list[Item]:
    """Two statements. `first`: of agents without a model, beside others that have one."""
    found = [*_gates_passed(workspace, rows), *_experiments(workspace, rows, now)]
    for one in first:
        if one.ready:
            what = f"{one.agent.name} has no model yet"
            why = f"Its {one.verdicts:,} verdicts are enough to train the first one from."
            url = f"{page_url(workspace, 'train-new')}#agent-{one.agent.slug}"
            action = f"Train the first model from {one.verdicts:,} verdicts"
            found.append(Item("train", what, why, None, action, url, Role.ADMIN))
    if ledger.unanswered:
        among = f" of the newest {ledger.looked_at:,}" if ledger.look_ended else ""
        what = f"{ledger.unanswered:,}{among} decision{'' if ledger.unanswered == 1 and not among else 's'} to label"
        why = "These decisions have no feedback yet. The most uncertain one comes first."
        found.append(Item("feedback", what, why, None, "Label", page_url(workspace, "label"), Role.LABELLER))
    if ledger.unfrozen.value >= FEW:
        what = f"{ledger.unfrozen} rewards since the newest dataset"
        why = "A run on these decisions may create a better version."
        url = page_url(workspace, "train-new")
        found.append(Item("dataset", what, why, None, "Train on new decisions", url, Role.ADMIN))
    valid = Q(expires_at=None) | Q(expires_at__gt=now)
    if not ApiKey.objects.for_workspace(workspace).filter(valid, revoked_at=None).exists():
        why = "Apps need an API key to ask an agent or to send feedback."
        url = page_url(workspace, "connect")
        found.append(Item("serve", "No app is connected", why, None, "Connect an app", url, Role.ADMIN))
    waiting = (
        Membership.objects.active()
        .filter(workspace=workspace, user__must_change_password=True, user__is_active=True)
        .select_related("user")
    )
    for member in waiting.order_by("created_at")[:MOST_MEMBERS]:
        why = "Anyone who knows this password can log in until the person sets their own."
        found.append(Item("serve", f"{member.user} still has a one-time password", why, member.user.created_at))
    return found


def _gates_passed(workspace: Workspace, rows: Rows) -> list[Item]:
    found = []
    for version in rows.untried:
        verdict = read_gate(version).deciding
        assert verdict is not None, "a gate that passed has a verdict that did"
        if verdict.kind == GateKind.HELD_OUT:
            why = f"{points(verdict.estimate)} points of accuracy on held-out rows; the whole interval is above 0."
        else:
            why = f"{points(verdict.estimate)} points of reward by logged decisions; the lower bound is above 0."
        what, url = f"{version} passed its gate", page_url(workspace, "version-try", version.pk)
        found.append(Item("register", what, why, verdict.created_at, "Start an experiment", url, Role.ADMIN))
    return found


def _experiments(workspace: Workspace, rows: Rows, now: dt.datetime) -> list[Item]:
    found = []
    for experiment in rows.experiments:
        url = page_url(workspace, "experiment", experiment.pk)
        if experiment.state == ExperimentState.PROMOTED:
            why = experiment.verdict or "The treatment is better."
            what = f"{experiment.name} ended: version promoted"
            found.append(Item("experiment", what, why, experiment.ended_at, "Show evidence", url))
        elif experiment.state == ExperimentState.FUTILE:
            what = f"{experiment.name} ended: no effect worth finding"
            found.append(
                Item("experiment", what, experiment.verdict, experiment.ended_at, "Show evidence", url, Role.ADMIN)
            )
        elif experiment.state == ExperimentState.RUNNING:
            units = min(experiment.units_control, experiment.units_treatment)
            age = (now - experiment.started_at).total_seconds()
            enough = units >= LONG_UNDECIDED * experiment.min_units_per_arm
            if enough and age >= LONG_UNDECIDED * experiment.min_seconds:
                why = f"{units:,} units per arm and no verdict: the difference is small. Stop it or let it run."
                what = f"{experiment.name} is still inconclusive"
                found.append(Item("experiment", what, why, experiment.started_at, "Open", url, Role.ADMIN))
    return found
