"""/api/v1: *Train the best*: starts a comparison of candidates, and reads it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.current import get_current_agent
from jobs.models import Job
from jobs.serializers import JobSerializer
from training.api.runs import find_dataset
from training.loops.best import KIND, MINUTES, Limits, plan_best, start_best
from training.runs.candidates import POLICY_KINDS, PolicyKind
from workspaces.http.bodies import StrictBody
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class BestStartSerializer(StrictBody):
    """What the candidates learn from, and the limits of their comparison."""

    agent = serializers.SlugField()
    dataset = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="Labelled or logged rows; default: the agent's newest"
    )
    heldout = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="Labelled rows to compare on; default: the agent's"
    )
    replay = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="Labelled rows to learn from together with logged ones"
    )
    minutes = serializers.FloatField(
        required=False, default=MINUTES, help_text="How long the comparison may take; what needs longer is stopped"
    )
    budget = serializers.FloatField(
        required=False,
        allow_null=True,
        default=None,
        help_text="What it may cost, by the operator's price of an hour of this machine",
    )
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=POLICY_KINDS),
        required=False,
        default=lambda: list(PolicyKind),
        help_text="Which kinds of policy to try; default: all",
    )
    retire_others = serializers.BooleanField(
        required=False, default=False, help_text="Retire the versions of candidates that did not win"
    )


class ScoreSerializer(serializers.Serializer[Any]):
    """A mean with its 95% interval, clustered by the rows' groups."""

    mean = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    n = serializers.IntegerField()
    clusters = serializers.IntegerField()


class LogEstimateSerializer(serializers.Serializer[Any]):
    estimate = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class CandidateSerializer(serializers.Serializer[Any]):
    """One candidate of a comparison."""

    kind = serializers.ChoiceField(choices=POLICY_KINDS)
    run = serializers.UUIDField()
    state = serializers.CharField(help_text="Of the run")
    error = serializers.CharField(help_text="Why the run made no version; empty where it did")
    version = serializers.CharField(allow_null=True)
    best = serializers.BooleanField()
    score = ScoreSerializer(allow_null=True)
    difference = ScoreSerializer(allow_null=True, help_text="Accuracy less that of the best, paired by row")
    by_log = LogEstimateSerializer(allow_null=True, help_text="Gain over what acted, by logged decisions")
    milliseconds = serializers.FloatField(allow_null=True, help_text="Of a decision, scored in batches")
    price_per_1000 = serializers.FloatField(allow_null=True, help_text="Of 1,000 decisions on this machine")
    seconds = serializers.FloatField(allow_null=True, help_text="Of its training")


class CandidateComparisonSerializer(serializers.Serializer[Any]):
    """What a comparison found."""

    measure = serializers.CharField(help_text="What `score` is: accuracy, or ndcg_10 of rankings")
    best = serializers.CharField(help_text="The version that is best for its price")
    says = serializers.CharField(help_text="The result in a sentence")
    candidates = CandidateSerializer(many=True)
    left_out = serializers.DictField(
        child=serializers.CharField(), help_text="Kinds that were not tried, each with the reason"
    )


class BestSerializer(JobSerializer):
    """The job of a comparison."""

    agent = serializers.CharField(source="payload.agent")
    comparison = serializers.SerializerMethodField(help_text="The result; null before the end")

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "agent", "comparison"]

    @extend_schema_field(CandidateComparisonSerializer(allow_null=True))
    def get_comparison(self, job: Job) -> dict[str, Any] | None:
        return dict(CandidateComparisonSerializer(job.result).data) if job.result else None


class BestStart(APIView):
    """Trains policies of several kinds on the same rows: a classifier of words, one on a sentence encoder, and a
    language model. The job compares them on held-out rows, by the log and by the cost of a decision, and names the best
    for its price. Each candidate is a run with a version of its own; nothing is promoted."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="train_best",
        request=BestStartSerializer,
        responses={"202": BestSerializer, "404": ErrorSerializer, "507": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        body = BestStartSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        fields, by = body.validated_data, acting(request)
        agent = get_current_agent(by, fields["agent"]).agent
        rows = {name: find_dataset(by, fields[name], name) for name in ("dataset", "heldout", "replay")}
        plan, other = plan_best(by=by, agent=agent, **rows)
        limits = Limits(
            minutes=fields["minutes"],
            budget=fields["budget"],
            kinds=[PolicyKind(kind) for kind in fields["kinds"]],
            retire_others=fields["retire_others"],
        )
        job = start_best(by=by, agent=agent, plan=plan, other=other, limits=limits)
        return Response(BestSerializer(job).data, status=202)


class BestDetail(generics.RetrieveAPIView[Job]):
    """Reads a comparison of candidates; its result is there once it has ended."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = BestSerializer

    def get_queryset(self) -> Any:
        return Job.objects.for_workspace(acting(self.request).workspace).filter(kind=KIND)

    @extend_schema(operation_id="read_best", responses={"200": BestSerializer, "404": ErrorSerializer})
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)
