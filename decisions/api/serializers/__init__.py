"""Serializers of the ledger's endpoints, by subject, for DRF and OpenAPI."""
