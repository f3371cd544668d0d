"""What the ledger's endpoints take and answer, by subject, for DRF and for OpenAPI."""
