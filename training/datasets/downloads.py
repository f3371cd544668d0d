"""A dataset's rows as a file that is sent: for the API, and for the dataset's page."""

from __future__ import annotations

from django.http import StreamingHttpResponse

from decisions.api.export import NDJSON, in_chunks
from training.datasets.other_formats import FILES, LINES, as_list, stream_rows
from training.models import DatasetSnapshot
from workspaces.errors import FieldFault, InvalidInput


def send_rows(dataset: DatasetSnapshot, format: str, file: str) -> StreamingHttpResponse:
    """Answers with the rows in this format, as JSON lines or one JSON list. Raises InvalidInput for what is unknown and
    for a format that the rows do not hold enough for, and Conflict where the files are not there."""
    if file not in FILES:
        fault = FieldFault("file", f"{file[:40]!r} is unknown", ", ".join(FILES))
        raise InvalidInput("The kind of file is unknown.", faults=[fault])
    rows = stream_rows(dataset, format)
    return StreamingHttpResponse(
        in_chunks(rows if file == LINES else as_list(rows)),
        content_type=NDJSON if file == LINES else "application/json",
        headers={"Content-Disposition": f'attachment; filename="{dataset.id}-{format}.{file}"'},
    )
