"""/api/v1: environments, and drawing their tasks as datasets."""

from __future__ import annotations

from dataclasses import fields

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.current import get_current_agent
from training.datasets.serializers import FreezingSerializer
from training.environments.drawing import TaskQuestion, start_drawing
from training.environments.listed import list_environments
from training.environments.serializers import DrawTasksSerializer, EnvironmentListSerializer
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class EnvironmentList(APIView):
    """Lists the environments that are installed here, each with an example of its tasks."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="list_environments", responses={"200": EnvironmentListSerializer})
    def get(self, request: Request) -> Response:
        return Response(EnvironmentListSerializer({"results": list_environments()}).data)


class EnvironmentDatasets(APIView):
    """Queues a job that draws an environment's tasks as datasets: one to learn from, one that is held out of it, and
    demonstrations for a first model where they are asked for. The reply is as for other datasets."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="draw_tasks",
        request=DrawTasksSerializer,
        responses={"202": FreezingSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request, name: str) -> Response:
        given = DrawTasksSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        told = given.validated_data
        current = get_current_agent(acting(request), told["agent"])
        asked = {field.name: told[field.name] for field in fields(TaskQuestion) if field.name != "environment"}
        question = TaskQuestion(environment=name, **asked)
        job = start_drawing(by=acting(request), agent=current.agent, name=told["name"], question=question)
        return Response(FreezingSerializer(job).data, status=202)
