"""The ledger's part of /api/v1 and the receiver of OTLP traces: views, serializers, examples and paths."""
