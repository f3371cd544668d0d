"""/api/v1/agents/{slug}/judges: what is known of the judges of an agent's decisions."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.editing import get_agent
from decisions.api.serializers.judges import JudgeBody, JudgesSerializer
from decisions.api.serializers.suggestions import TrainingSerializer
from decisions.judges.calibrating import list_judges, request_calibration
from decisions.judges.ledger import JudgeName
from workspaces.http.permissions import acting
from workspaces.models import Scope


class JudgeList(APIView):
    """Lists the judges of an agent's decisions, each as it was measured against people last."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}

    @extend_schema(operation_id="list_judges", responses={"200": JudgesSerializer})
    def get(self, request: Request, slug: str) -> Response:
        calibrated, uncalibrated = list_judges(get_agent(request, slug))
        return Response(JudgesSerializer({"results": calibrated, "uncalibrated": uncalibrated}).data)

    @extend_schema(operation_id="calibrate_judge", request=JudgeBody, responses={"202": TrainingSerializer})
    def post(self, request: Request, slug: str) -> Response:
        """Queues a job that measures the judge against people now. While one is queued or running, it answers with that
        one."""
        agent, body = get_agent(request, slug), JudgeBody(data=request.data)
        body.is_valid(raise_exception=True)
        job = request_calibration(by=acting(request), agent=agent, judge=JudgeName(**body.validated_data))
        return Response(TrainingSerializer(job).data, status=202)
