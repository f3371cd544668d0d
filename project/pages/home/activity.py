"""Today's activity on the home page, newest first: audit entries, ended runs and experiments, rewards."""

from __future__ import annotations

import datetime as dt

from models_registry.models import ExperimentState
from project.pages.home.counts import Count, LedgerCounts
from project.pages.home.items import Event, page_url
from project.pages.home.rows import MOST, Rows
from training.run_states import RunState
from workspaces.models import AuditEntry, Workspace
from workspaces.storage.ids import uuid7_bound

TOLD: dict[str, tuple[str, str]] = {
    "agent.created": ("Agent {slug} created", ""),
    "api_key.created": ("API key created", ""),
    "api_key.revoked": ("API key revoked", ""),
    "alias.champion": ("{name} became champion", "ok"),
    "dataset.created": ("Dataset of {rows} decisions created", ""),
    "dataset.imported": ("Labelled dataset imported", ""),
    "demo.started": ("Demo started", ""),
    "experiment.started": ("Experiment started", ""),
    "experiment.stopped": ("Experiment stopped", ""),
    "holdout.started": ("Holdout started", ""),
    "experiment_group.started": ("Group of experiments started", ""),
    "rehearsal.started": ("Rehearsal started", ""),
    "rewards.requested": ("Calculation of rewards started", ""),
    "run.started": ("Run started", ""),
    "version.registered": ("{name} registered", "ok"),
}
"""Audit entries that are told, in words, with their tone; the others are details of these."""
PAGE_OF_TARGET = {
    "model_version": "version",
    "experiment": "experiment",
    "experiment_group": "experiment-group",
    "holdout": "holdout",
    "run": "run",
    "training_run": "run",
}
TONES = {
    RunState.SUCCEEDED: "ok",
    RunState.FAILED: "bad",
    ExperimentState.PROMOTED: "ok",
    ExperimentState.ROLLED_BACK: "bad",
    ExperimentState.FUTILE: "",
}
ENDED_BY_THE_RULE = (ExperimentState.PROMOTED, ExperimentState.ROLLED_BACK, ExperimentState.FUTILE)


def list_activity(workspace: Workspace, rows: Rows, ledger: LedgerCounts, today: dt.datetime) -> list[Event]:
    """One statement."""
    entries = AuditEntry.objects.for_workspace(workspace).filter(id__gte=uuid7_bound(today), action__in=TOLD)
    events = [_told(workspace, entry) for entry in entries.order_by("-id")[:MOST]]
    for run in rows.runs:
        if run.finished_at is not None and run.finished_at >= today:
            made = f": {run.produced_version}" if run.produced_version else ""
            url, tone = page_url(workspace, "run", run.pk), TONES.get(run.state, "")
            events.append(Event(run.finished_at, f"{run} {run.state}{made}", url=url, tone=tone))
    for experiment in rows.experiments:
        # One that a person stopped stands among the audit entries.
        if experiment.state in ENDED_BY_THE_RULE and experiment.ended_at >= today:
            what = f"{experiment.name}: {experiment.get_state_display().lower()}"
            url, tone = page_url(workspace, "experiment", experiment.pk), TONES[experiment.state]
            events.append(Event(experiment.ended_at, what, url=url, tone=tone))
    if ledger.rewards_today and ledger.last_reward is not None:
        noun = "reward" if ledger.rewards_today == Count(1) else "rewards"
        events.append(Event(ledger.last_reward, f"{ledger.rewards_today} {noun} calculated"))
    return sorted(events, key=lambda event: event.at, reverse=True)


def _told(workspace: Workspace, entry: AuditEntry) -> Event:
    words, tone = TOLD[entry.action]
    kind, _, pk = entry.target.partition(":")
    page = PAGE_OF_TARGET.get(kind)
    details = {name: entry.details.get(name, "?") for name in ("slug", "name", "rows")}
    if isinstance(rows := details["rows"], int):
        details["rows"] = f"{rows:,}"
    return Event(
        entry.at,
        words.format_map(details),
        by=entry.actor if entry.actor != "system" else "",
        url=page_url(workspace, page, pk) if page else "",
        tone=tone,
    )
