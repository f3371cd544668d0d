"""Views of the notes app's /api/ai/*: its five agents decide, through the gateway.

A body is the state, as `input` or by itself, with the id of the person for whom it is asked (docs/notes-app.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.ingest.decoding import fault_of
from decisions.notes_app import bodies
from decisions.notes_app.api import JSON, TAGS, NotesView, body_of
from decisions.notes_app.asking import ask_agent
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.idempotency import made_id
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope

USER = "userId"


class Asked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """What the app sends, but for RETRIEVER."""

    input: dict[str, Any]
    user_id: str | None = None


def find_user(by: Actor, given: Any) -> str | None:
    """For whom the agent is asked: the person whose session it is, else whom the app names. Raises NotAuthenticated for
    another person than the session's, InvalidInput for what is no id."""
    if given is not None and (not isinstance(given, str) or not 0 < len(given) <= 200):
        raise InvalidInput(
            "The user is invalid.", faults=[FieldFault(USER, "is not an id", "text, up to 200 characters")]
        )
    if by.user is None:
        return given
    if given not in (None, str(by.user.pk), by.user.email):
        raise NotAuthenticated("This session belongs to another user than userId.")
    return str(by.user.pk)


class AskView(NotesView):
    """One agent of the app."""

    scopes = {"POST": Scope.ROUTE_READ}
    calls_out = True  # no transaction is open while the model server answers (workspaces.http.idempotency)
    kind: str

    def answer(self, request: Request) -> Response:
        try:
            given = msgspec.convert(body_of(request), Asked)
        except msgspec.ValidationError as error:
            raise InvalidInput("The body is invalid.", faults=[fault_of(error)]) from error
        return self.ask(request, given.input, "input", given.user_id)

    def ask(self, request: Request, state: Mapping[str, Any], place: str, user: Any) -> Response:
        by = acting(request)
        claim = getattr(request._request, "idempotency_claim", None)
        answer = ask_agent(
            by=by,
            kind=self.kind,
            state=state,
            place=place,
            user=find_user(by, user),
            id=made_id(claim, 0) if claim is not None else None,
        )
        return Response(answer)


def _describe(operation: str, body: Mapping[str, Any]) -> Any:
    return extend_schema(
        operation_id=operation,
        tags=TAGS,
        request=dict(body),
        responses={200: JSON, 404: ErrorSerializer, 409: ErrorSerializer},
    )


class File(AskView):
    """Asks FILER where an item belongs, and how urgent it is."""

    kind = "FILER"

    @_describe("notes_file", bodies.asked_body("FILER"))
    def post(self, request: Request) -> Response:
        return self.answer(request)


class Prioritize(AskView):
    """Asks PRIORITIZER which item to do next."""

    kind = "PRIORITIZER"

    @_describe("notes_prioritize", bodies.asked_body("PRIORITIZER"))
    def post(self, request: Request) -> Response:
        return self.answer(request)


class Store(AskView):
    """Asks STORER whether and where a completed item goes into its project's document."""

    kind = "STORER"

    @_describe("notes_store", bodies.asked_body("STORER"))
    def post(self, request: Request) -> Response:
        return self.answer(request)


class Relate(AskView):
    """Asks LIBRARIAN how a new item relates to existing ones."""

    kind = "LIBRARIAN"

    @_describe("notes_relate", bodies.asked_body("LIBRARIAN"))
    def post(self, request: Request) -> Response:
        return self.answer(request)


class Retrieve(AskView):
    """Asks RETRIEVER for content from documents that it cites."""

    kind = "RETRIEVER"

    @_describe("notes_retrieve", bodies.retrieved_body())
    def post(self, request: Request) -> Response:
        state = dict(body_of(request))
        user = state.pop(USER, None)
        if not isinstance(state.get("relevantOpuses"), list):
            fault = FieldFault("relevantOpuses", "is missing or not a list", "the documents, [{id}]")
            raise InvalidInput("The body is invalid.", faults=[fault])
        return self.ask(request, state, "", user)
