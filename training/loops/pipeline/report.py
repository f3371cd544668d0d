"""What a pipeline says at its end: a JSON object, as `manage.py pipeline --json` and `run_full_pipeline` give it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from models_registry.artifacts.opening import artifact_path
from models_registry.models import GateVerdict, ModelVersion
from models_registry.versions.gates import read_gate
from training.exports.ollama import Deployed
from training.loops.pipeline.deployment import Deployment
from training.loops.pipeline.stored import StoredPipeline
from training.models import ExportJob, SuiteScore, TrainingRun


def build_report(stored: StoredPipeline, deployment: Deployment, ollama: Deployed | None) -> dict[str, Any]:
    """Of one whose stages are all done (docs/pipeline.md)."""
    run = stored.find_run()
    assert run is not None and run.produced_version is not None
    version = run.produced_version
    dataset, gate = run.dataset, read_gate(version)
    suites = SuiteScore.objects.filter(version=version).select_related("suite", "against__registered_model")
    return {
        "pipeline": stored.name,
        "agent": stored.agent.slug,
        "method": run.method,
        "dataset": {"id": str(dataset.id), "kind": dataset.kind, "rows": dataset.rows},
        "run": str(run.id),
        "version": str(version),
        "base_model": version.base_model or None,
        "evaluation": _evaluation(run),
        "suites": [_suite(one) for one in suites.order_by("suite_id")],
        "gate": {"passed": gate.passed, "verdicts": [_verdict(one) for one in gate.verdicts]},
        "export": _export(stored.find_export(version), version),
        "deployment": {"asked": stored.prepared.plan.deploy, **deployment.as_plain()},
        "ollama": {**asdict(ollama), "host": stored.prepared.plan.ollama_host} if ollama is not None else None,
    }


def _evaluation(run: TrainingRun) -> dict[str, Any] | None:
    """On held-out rows; each score is {mean, low, high, n, clusters}."""
    found = getattr(run, "evaluation", None)
    if found is None:
        return None
    return {"rows": found.rows, "scores": found.scores, "differences": found.differences}


def _suite(score: SuiteScore) -> dict[str, Any]:
    return {
        "suite": score.suite.name,
        "accuracy": score.scores.get("accuracy"),
        "against": str(score.against) if score.against is not None else None,
        "difference": score.differences.get("accuracy"),
    }


def _verdict(verdict: GateVerdict) -> dict[str, Any]:
    told = {name: getattr(verdict, name) for name in ("kind", "passed", "estimate", "low", "high", "refusals")}
    return told | {"against": str(verdict.against) if verdict.against is not None else None}


def _export(export: ExportJob | None, version: ModelVersion) -> dict[str, Any] | None:
    if export is None or export.artifact is None:
        return None
    digest = export.artifact.digest
    return {"id": str(export.id), "format": export.format, "digest": digest, "folder": str(artifact_path(digest))}
