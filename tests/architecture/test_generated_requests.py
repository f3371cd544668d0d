"""Requests made up from our own OpenAPI document: whatever a client sends is its fault, never ours."""

from collections import Counter

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from benchmarks.accept.generated import send_generated
from tests.factories import DecisionFactory

EACH = 3


@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore::Warning:schemathesis.*")
@pytest.mark.filterwarnings("ignore::Warning:hypothesis.*")
def test_no_generated_request_is_a_server_error(api, agent):
    document = SchemaGenerator().get_schema(request=None, public=True)
    token = api().token
    client = Client(raise_request_exception=False)
    statuses, failed = Counter(), []

    def send(request):
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        headers["Authorization"] = f"Bearer {token}"
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        answer = client.generic(
            request.method,
            request.path_url,
            body,
            content_type=headers.pop("Content-Type", "application/json"),
            headers=headers,
        )
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            failed.append((request.method, request.path_url, body[:300], answer.content[:300]))

    known = {"slug": agent.slug, "id": str(DecisionFactory(agent=agent).id)}
    sent = send_generated(document, send, each=EACH, known=known)
    assert not failed, failed[:3]
    assert sent == sum(statuses.values()) > 100
    # Some came through, and some were refused for what they sent: both kinds were tried.
    assert statuses[200] > 0
    assert statuses[400] > 0
