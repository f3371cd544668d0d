"""The path for traces that OTLP prescribes, outside /api/v1."""

from django.urls import path

from decisions.api.traces import Traces

urlpatterns = [path("v1/traces", Traces.as_view(), name="otlp-traces")]
