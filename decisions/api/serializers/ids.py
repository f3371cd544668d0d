"""The field of a body that takes the id of a decision in any of its forms."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from decisions.answer_ids import FORMS, SCHEMA, read_decision_id


@extend_schema_field(dict(SCHEMA))
class DecisionIdField(serializers.UUIDField):
    expected = FORMS

    def to_internal_value(self, data: Any) -> uuid.UUID:
        try:
            return read_decision_id(data)
        except (TypeError, ValueError):
            self.fail("invalid", value=data)
