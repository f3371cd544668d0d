"""OpenTelemetry traces into the ledger: spans become episodes, steps, decisions and feedback.

`otlp` reads bytes, `mapping` interprets a span (PURE, with the table of names in `names`), `recording` writes.
"""
