"""Indexes of what a look reads, without keeping writers waiting; and what looks had left by then."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from workspaces.storage.ids import uuid7_of

# Of running experiments: no look asks about the others any more.
SETTLE = """
UPDATE models_registry_exposure e SET settled = true
  FROM models_registry_observation o JOIN models_registry_experiment x ON x.id = o.experiment_id
 WHERE x.state = 'running' AND o.experiment_id = e.experiment_id AND o.unit = e.unit
"""
COUNT = """
UPDATE models_registry_phase p SET settled = c.counts
  FROM (SELECT phase_id, jsonb_object_agg(arm, units) AS counts
          FROM (SELECT e.phase_id, e.arm, count(*) AS units
                  FROM models_registry_observation o
                  JOIN models_registry_exposure e ON e.id = o.exposure_id
                  JOIN models_registry_experiment x ON x.id = o.experiment_id AND x.state = 'running'
                 GROUP BY e.phase_id, e.arm) g
         GROUP BY phase_id) c
 WHERE c.phase_id = p.id
"""
# Of experiments that are over: the page's mean outcomes. Those that run are read once more by their next look.
SUM = """
UPDATE models_registry_experiment x
   SET running = jsonb_build_object(
         'plain', jsonb_build_object('units', c.units, 'treated', c.treated, 'outcomes', c.outcomes),
         'treated_outcomes', c.treated_outcomes)
  FROM (SELECT o.experiment_id, count(*) AS units, sum(o.outcome) AS outcomes,
               count(*) FILTER (WHERE e.arm = 'treatment') AS treated,
               coalesce(sum(o.outcome) FILTER (WHERE e.arm = 'treatment'), 0) AS treated_outcomes
          FROM models_registry_observation o JOIN models_registry_exposure e ON e.id = o.exposure_id
         WHERE o.outcome IS NOT NULL GROUP BY o.experiment_id) c
 WHERE c.experiment_id = x.id AND x.state <> 'running'
"""
FIGURES = (
    "units_control", "units_treatment", "log_e_plus", "log_e_minus", "estimate", "low", "high", "plain_log_e_plus",
    "plain_log_e_minus", "plain_estimate", "plain_low", "plain_high", "sample_ratio_mismatch", "requests_control",
    "failed_control", "requests_treatment", "failed_treatment",
)  # fmt: skip


def begin_logs(apps: Any, schema_editor: Any) -> None:
    """The start and the end of experiments that began before they had a log."""
    registry = apps.get_model("models_registry", "Experiment")
    look = apps.get_model("models_registry", "Look")
    audit = apps.get_model("workspaces", "AuditEntry")
    for experiment in registry.objects.filter(looks__isnull=True):
        phases = list(experiment.phases.order_by("number"))
        if not phases:
            continue
        entry = audit.objects.filter(target=f"experiment:{experiment.id}", action="experiment.started").first()
        known = {"workspace_id": experiment.workspace_id, "experiment": experiment}
        look.objects.create(
            **known, id=experiment.id, at=experiment.started_at, action="start", by=entry.actor if entry else "system",
            reasons=["started before reasons were kept"], phase=phases[0].number,
            treatment_share=phases[0].treatment_share,
        )  # fmt: skip
        if experiment.ended_at is None:
            continue
        by_hand = "stop" if experiment.promoted_version_id is None else "promote_by_hand"
        action = {"promoted": "promote", "rolled_back": "roll_back"}.get(experiment.state, by_hand)
        by = (experiment.ended_by or "system") if action == by_hand else ""
        look.objects.create(
            **known, id=uuid7_of(experiment.ended_at, experiment.id.bytes), at=experiment.ended_at, action=action, by=by,
            reasons=[experiment.verdict or experiment.state], phase=phases[-1].number,
            treatment_share=phases[-1].treatment_share, guardrails=experiment.guardrail_evidence,
            **{name: getattr(experiment, name) for name in FIGURES},
        )  # fmt: skip


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("models_registry", "0011_experiments_keep_sums_and_a_log")]

    operations = [
        migrations.RunSQL([SETTLE, COUNT, SUM], migrations.RunSQL.noop),
        migrations.RunPython(begin_logs, migrations.RunPython.noop),
        AddIndexConcurrently(
            model_name="exposure",
            index=models.Index(
                condition=Q(("settled", False)),
                fields=["experiment", "exposed_at"],
                include=("phase", "arm"),
                name="exposure_not_settled",
            ),
        ),
        RemoveIndexConcurrently(model_name="exposure", name="exposure_in_order"),
        AddIndexConcurrently(
            model_name="failedrequest", index=models.Index(fields=["failed_at"], name="failed_request_moment")
        ),
    ]
