"""/api/v1: evaluation suites, and what versions reached on them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.agents.current import get_current_agent
from decisions.api.agent_lists import AgentListQuery, of_agent
from jobs.models import Job
from jobs.serializers import JobSerializer
from models_registry.api.serializers import VersionField
from models_registry.versions.references import find_version
from training.evaluation.suites import SCORE
from training.evaluation.suites.list_queries import VersionScoreQuery
from training.evaluation.suites.services import SuitePlan, compare_scores, create_suite, start_scoring
from training.models import DatasetSnapshot, EvaluationSuite, SuiteScore
from workspaces.errors import FieldFault, NotFound
from workspaces.http.bodies import StrictBody
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope


class SuiteSerializer(serializers.ModelSerializer[EvaluationSuite]):
    agent = serializers.CharField(source="agent.slug")
    rows = serializers.IntegerField(help_text="Number of rows that a version answers")
    left_out = serializers.IntegerField(help_text="Texts of the dataset that are not known to be right")

    class Meta:
        model = EvaluationSuite
        fields = ["id", "name", "agent", "dataset", "rows", "left_out", "slice_by", "scorer", "created_at"]


class SuiteCreateSerializer(StrictBody):
    agent = serializers.SlugField()
    name = serializers.CharField(max_length=200)
    dataset = serializers.UUIDField(
        help_text="Labelled rows, or texts, of which only the right ones are used. No run should learn from them"
    )
    slice_by = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True, help_text="A field of the rows, such as group"
    )
    reward = serializers.ListField(
        child=serializers.DictField(),
        max_length=64,
        required=False,
        default=list,
        help_text="Components that value the version's own action; by default the agent's reward spec says what a "
        "right and a wrong action are worth",
    )


class SuiteScoreSerializer(serializers.ModelSerializer[SuiteScore]):
    """`differences` are paired, of the version minus `against`: the version that training started from, or the one
    that was asked for."""

    suite_name = serializers.CharField(source="suite.name")
    version = serializers.CharField(source="version.__str__")
    against = serializers.SerializerMethodField()

    class Meta:
        model = SuiteScore
        fields = [
            "id",
            "suite",
            "suite_name",
            "version",
            "run",
            "rows",
            "learnt",
            "scores",
            "against",
            "differences",
            "created_at",
        ]

    def get_against(self, score: SuiteScore) -> str | None:
        return str(score.against) if score.against else None


class ScoringStartSerializer(StrictBody):
    version = VersionField(help_text="A version of the agent's model")


class ScoringSerializer(JobSerializer):
    score = serializers.SerializerMethodField(help_text="The score's id, once it exists")

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "score"]

    def get_score(self, job: Job) -> UUID | None:
        return UUID(job.result["score"]) if job.result else None


class SuiteQuery(generics.GenericAPIView[Any]):
    def get_suites(self) -> Any:
        suites = EvaluationSuite.objects.for_workspace(acting(self.request).workspace)
        return suites.select_related("agent", "dataset__artifact")


class SuiteList(SuiteQuery, generics.ListAPIView[EvaluationSuite]):
    """Lists evaluation suites, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = SuiteSerializer
    query_class = AgentListQuery

    def get_queryset(self) -> Any:
        return of_agent(acting(self.request).workspace, self.get_suites(), list_query(self))

    @extend_schema(
        operation_id="create_suite",
        request=SuiteCreateSerializer,
        responses={"201": SuiteSerializer, "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Makes a suite of labelled rows or texts. Every version that a run of the agent makes from now on is scored on
        it; the champion is scored at once, by a job."""
        given = SuiteCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        current = get_current_agent(acting(request), fields["agent"])
        datasets = DatasetSnapshot.objects.for_workspace(acting(request).workspace).select_related("artifact")
        dataset = datasets.filter(pk=fields["dataset"]).first()
        if dataset is None:
            fault = FieldFault("dataset", "does not exist in this workspace", "an ID in this workspace")
            raise NotFound("dataset not found.", faults=[fault])
        plan = SuitePlan(fields["name"], dataset, fields["slice_by"], fields["reward"])
        suite = create_suite(by=acting(request), agent=current.agent, plan=plan)
        return Response(SuiteSerializer(self.get_suites().get(pk=suite.pk)).data, status=201)


class SuiteDetail(SuiteQuery, generics.RetrieveAPIView[EvaluationSuite]):
    """Reads one suite."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = SuiteSerializer

    def get_queryset(self) -> Any:
        return self.get_suites()


class SuiteScores(SuiteQuery, generics.ListAPIView[SuiteScore]):
    """Lists what versions reached on a suite, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = SuiteScoreSerializer

    def get_queryset(self) -> Any:
        suite = generics.get_object_or_404(self.get_suites(), pk=self.kwargs["pk"])
        return select_scores(SuiteScore.objects.filter(suite=suite))

    @extend_schema(
        operation_id="score_version",
        request=ScoringStartSerializer,
        responses={"202": ScoringSerializer, "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Queues a job that scores a version on the suite. A version has one score on a suite: a second call finds the
        first job."""
        suite = generics.get_object_or_404(self.get_suites(), pk=pk)
        given = ScoringStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        version = find_version(acting(request).workspace, given.validated_data["version"], field="version")
        job = start_scoring(by=acting(request), suite=suite, version=version)
        return Response(ScoringSerializer(job).data, status=202)


class SuiteScoring(generics.RetrieveAPIView[Job]):
    """Reads the progress of scoring a version, and at the end the score's id."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ScoringSerializer

    def get_queryset(self) -> Any:
        return Job.objects.for_workspace(acting(self.request).workspace).filter(kind=SCORE)


class VersionScores(generics.ListAPIView[SuiteScore]):
    """Lists what a version reached on every suite, with paired differences to the version that its training started
    from, or to another one: below 0 with the whole interval, it forgot what the other knew."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = SuiteScoreSerializer
    query_class = VersionScoreQuery

    def get_queryset(self) -> Any:
        version = find_version(acting(self.request).workspace, self.kwargs["pk"])
        return select_scores(SuiteScore.objects.filter(version=version))

    @extend_schema(
        responses={"200": SuiteScoreSerializer(many=True), "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        scores = self.paginate_queryset(self.get_queryset()) or []
        if asked := list_query(self).get("against"):
            other = find_version(acting(request).workspace, asked, field="against")
            found = SuiteScore.objects.filter(version=other).select_related("answers", "version")
            others = {one.suite_id: one for one in found}
            for score in scores:
                its = others.get(score.suite_id)
                score.differences = compare_scores(score, its) if its is not None else {}
                score.against = other if its is not None else None
        return self.get_paginated_response(self.get_serializer(scores, many=True).data)


def select_scores(scores: Any) -> Any:
    """With what their serializer and pages read."""
    return scores.select_related(
        "suite__agent",
        "suite__dataset",
        "version__registered_model",
        "against__registered_model",
        "answers",
    )
