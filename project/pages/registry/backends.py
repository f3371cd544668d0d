"""Pages of backends: their health, what they were asked and cost, and what is deployed there."""

from __future__ import annotations

import os
import time
import uuid
from typing import Any

from django.contrib import messages
from django.db.models import Prefetch
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from models_registry.backends import services as serving
from models_registry.backends.asking import breaker_of
from models_registry.backends.checking import find_error, note_state
from models_registry.backends.endpoint import endpoint_of
from models_registry.calls.usage import NOTHING, WINDOWS, measure_usage
from models_registry.models import Backend, Capability, Deployment
from models_registry.versions.references import find_version
from project.pages.registry.backend_forms import BackendForm, DeployForm, FaultsForm, RemoteVersionForm
from workspaces.errors import ReckonerError
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, workspace_page

MOST = 100


@require_safe
@workspace_page()
def backend_list(request: PageRequest) -> HttpResponse:
    """Each with its state, what is deployed there, and its calls, spend and latency."""
    deployments = Deployment.objects.filter(enabled=True).select_related("version__registered_model")
    backends = list(
        Backend.objects.for_workspace(request.workspace)
        .prefetch_related(Prefetch("deployments", queryset=deployments, to_attr="serving"))
        .order_by("name")[:MOST]
    )
    usage = measure_usage(request.workspace, now=timezone.now())
    lines = [
        {"backend": one, **{window: usage.get((one.id, window), NOTHING) for window in WINDOWS}} for one in backends
    ]
    own = {window: usage.get((None, window), NOTHING) for window in WINDOWS}
    down = [one for one in backends if one.enabled and one.state == "down"]
    return render(request, "registry/backends.html", {"lines": lines, "own": own, "down": down})


def _get_backend(request: PageRequest, pk: uuid.UUID) -> Backend:
    backend: Backend | None = Backend.objects.for_workspace(request.workspace).filter(pk=pk).first()
    if backend is None:
        raise Http404("Backend not found.")
    return backend


@require_safe
@workspace_page()
def backend_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    return _show(request, _get_backend(request, pk))


def _show(
    request: PageRequest,
    backend: Backend,
    *,
    deploy: DeployForm | None = None,
    remote: RemoteVersionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    usage = measure_usage(request.workspace, now=timezone.now())
    deployments = Deployment.objects.filter(backend=backend).select_related(
        "version__registered_model", "version__artifact"
    )
    context = {
        "backend": backend,
        "usage": [(window, usage.get((backend.id, window), NOTHING)) for window in WINDOWS],
        "deployments": list(deployments.order_by("version__registered_model__name", "-version__number", "priority")),
        "has_key": bool(os.environ.get(backend.key_variable)) if backend.key_variable else None,
        "capabilities": [Capability(name).label for name in backend.capabilities],
        "rests": breaker_of(endpoint_of(backend)).rests(time.monotonic()),
        "deploy": deploy or DeployForm(auto_id="deploy-%s"),
        "remote": remote
        or RemoteVersionForm(
            auto_id="remote-%s", workspace=request.workspace, initial={"model": request.GET.get("model", "")}
        ),
    }
    return render(request, "registry/backend.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def backend_new(request: PageRequest) -> HttpResponse:
    form = BackendForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            backend = serving.add_backend(by=request.actor, setup=serving.BackendSetup(**form.changes))
        except ReckonerError as error:
            _tell(form, error)
        else:
            messages.success(request, f"{backend} is added.")
            return redirect("pages:backend", request.workspace.slug, backend.pk)
    status = 400 if request.method == "POST" else 200
    return render(request, "registry/backend_form.html", {"form": form}, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def backend_edit(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    backend = _get_backend(request, pk)
    form = BackendForm(request.POST or None, backend=backend)
    if request.method == "POST" and form.is_valid():
        try:
            serving.change_backend(by=request.actor, backend=backend, changes=form.changes)
        except ReckonerError as error:
            _tell(form, error)
        else:
            messages.success(request, f"{backend} is changed.")
            return redirect("pages:backend", request.workspace.slug, pk)
    status = 400 if request.method == "POST" else 200
    return render(request, "registry/backend_form.html", {"form": form, "backend": backend}, status=status)


def _tell(form: FaultsForm, error: ReckonerError) -> None:
    if error.faults:
        form.add_faults(error.faults)
    else:
        form.add_error(None, error.message)


@require_POST
@workspace_page(role=Role.ADMIN)
def backend_switch(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """On or off; one that is off is not asked."""
    enabled = request.POST.get("enabled") == "on"
    backend = serving.change_backend(by=request.actor, backend=_get_backend(request, pk), changes={"enabled": enabled})
    return _back(request, backend, f"{backend} is switched {'on' if enabled else 'off'}.")


@require_POST
@workspace_page(role=Role.ADMIN)
def backend_check(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Asks it now whether it answers."""
    backend = _get_backend(request, pk)
    error = find_error(endpoint_of(backend))
    note_state(backend, error)
    return _back(request, backend, f"{backend} does not answer: {error}" if error else f"{backend} answers.")


@confirmed(back="pages:backend")
def backend_remove(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    backend = _get_backend(request, pk)
    return Confirmation(
        title=f"Remove {backend}?",
        explanation="It can be removed if no version is deployed on it and no call names it. Otherwise, switch it off.",
        button=f"Remove {backend}",
        after=reverse("pages:backends", args=[request.workspace.slug]),
        do=lambda: serving.remove_backend(by=request.actor, backend=backend),
        done=f"{backend} is removed.",
    )


@require_POST
@workspace_page(role=Role.ADMIN)
def backend_deploy(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    backend, form = _get_backend(request, pk), DeployForm(request.POST, auto_id="deploy-%s")
    if form.is_valid():
        told = form.cleaned_data
        try:
            version = find_version(request.workspace, told["version"].strip(), field="version")
            serving.deploy_version(
                by=request.actor,
                version=version,
                backend=backend,
                remote_name=told["remote_name"].strip(),
                priority=told["priority"],
            )
        except ReckonerError as error:
            _tell(form, error)
        else:
            return _back(request, backend, f"{version} is deployed on {backend}.")
    return _show(request, backend, deploy=form, status=400)


@require_POST
@workspace_page(role=Role.ADMIN)
def backend_remote(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """A new version that this backend serves under a name of its own."""
    backend = _get_backend(request, pk)
    form = RemoteVersionForm(request.POST, auto_id="remote-%s", workspace=request.workspace)
    if form.is_valid():
        told: dict[str, Any] = form.cleaned_data
        try:
            version = serving.add_remote_version(by=request.actor, backend=backend, **told)
        except ReckonerError as error:
            _tell(form, error)
        else:
            return _back(request, backend, f"{version} is {told['remote_name']} on {backend}.")
    return _show(request, backend, remote=form, status=400)


def _get_deployment(request: PageRequest, pk: uuid.UUID) -> Deployment:
    found = Deployment.objects.for_workspace(request.workspace)
    deployment = found.select_related("version__registered_model", "backend").filter(pk=pk).first()
    if deployment is None:
        raise Http404("Deployment not found.")
    return deployment


@require_POST
@workspace_page(role=Role.ADMIN)
def deployment_change(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Switches it on or off, or changes its priority."""
    deployment = _get_deployment(request, pk)
    enabled = {"on": True, "off": False}.get(request.POST.get("enabled", ""))
    given = request.POST.get("priority", "").strip()
    priority = int(given) if given.isascii() and given.isdecimal() else None if not given else -1
    serving.change_deployment(by=request.actor, deployment=deployment, priority=priority, enabled=enabled)
    return _back(request, deployment.backend, f"{deployment.version} on {deployment.backend} is changed.")


@require_POST
@workspace_page(role=Role.ADMIN)
def deployment_remove(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    deployment = _get_deployment(request, pk)
    serving.remove_deployment(by=request.actor, deployment=deployment)
    return _back(request, deployment.backend, f"{deployment.version} is no longer deployed on {deployment.backend}.")


def _back(request: PageRequest, backend: Backend, says: str) -> HttpResponse:
    messages.success(request, says)
    return redirect("pages:backend", request.workspace.slug, backend.pk)
