"""The whole loop by one call: rewards, dataset, run, evaluation, export and, where asked for, deployment.

`manage.py pipeline` and `run_full_pipeline` below start it; a worker works it off (docs/pipeline.md). This file imports
nothing of Django, so a program may import it before Django is set up.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["run_full_pipeline"]


def run_full_pipeline(
    *,
    agent: str,
    method: str,
    model: str = "",
    rows: str = "",
    settings: Mapping[str, Any] | None = None,
    held_out: float = 0.2,
    only_new: bool = False,
    deploy: str = "",
    deploy_ollama: bool = False,
    quantisation: str = "",
    ollama_host: str = "",
    workspace: str = "",
    wait: bool = True,
) -> dict[str, Any]:
    """Starts a pipeline on the running instance, waits for its end, and returns its report (docs/pipeline.md).

    `agent` and `workspace` are slugs; the workspace may be left out where there is only one. The others are as of
    `manage.py pipeline`: `settings` are fields of the engine's spec, `deploy` is "", "experiment" or "champion",
    `quantisation` and `ollama_host` go with `deploy_ollama`.
    Progress goes to standard error. With `wait=False` it returns {"pipeline", "job"} at once.
    Outside Django it sets Django up, with DJANGO_SETTINGS_MODULE or else the project's own settings.

    Raises InvalidPipeline, whose `faults` name every reason, before anything starts; PipelineFailed where it ended
    before its last stage. Ctrl-C cancels it.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()
    from rich.console import Console

    from training.loops.pipeline.plan import PipelinePlan
    from training.loops.pipeline.services import find_agent, follow_pipeline, start_pipeline
    from workspaces.access.actors import system

    plan = PipelinePlan(
        method=method,
        model=model,
        rows=rows,
        settings=dict(settings or {}),
        held_out=held_out,
        only_new=only_new,
        deploy=deploy,
        deploy_ollama=deploy_ollama,
        quantisation=quantisation,
        ollama_host=ollama_host,
    )
    found = find_agent(agent, workspace)
    job = start_pipeline(by=system(found.workspace), agent=found, plan=plan)
    if not wait:
        return {"pipeline": job.payload["pipeline"], "job": str(job.id)}
    return follow_pipeline(job, console=Console(stderr=True, file=sys.stderr, highlight=False))
