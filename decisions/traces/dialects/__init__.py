"""SDKs whose spans have names of their own, in the names that the table knows (`decisions.traces.names`). PURE.

One module each. Its `MARK` is an attribute that every such span has; `translate` gives a span's attributes in the
table's names, and those that it has no name for as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from decisions.traces.dialects import langfuse, mlflow, vercel
from decisions.traces.spans import Span

Translate = Callable[[Mapping[str, Any]], dict[str, Any]]
DIALECTS: tuple[tuple[str, Translate], ...] = (
    (vercel.MARK, vercel.translate),
    (langfuse.MARK, langfuse.translate),
    (mlflow.MARK, mlflow.translate),
)


def translate_span(span: Span) -> Span:
    """The span in the table's names; one that is written in them already as it is."""
    for mark, translate in DIALECTS:
        if isinstance(span.attributes.get(mark), str):
            return replace(span, attributes=translate(span.attributes), **_failure(span))
    return span


def _failure(span: Span) -> dict[str, Any]:
    """Langfuse names a failure in its own level, which need not be the span's status."""
    if span.attributes.get(langfuse.LEVEL) != "ERROR":
        return {}
    return {"failed": True, "message": span.message or str(span.attributes.get(langfuse.MESSAGE) or "")}
