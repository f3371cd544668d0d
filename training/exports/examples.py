"""Examples of exports, for the OpenAPI document. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models_registry.api.examples import DIGEST, VERSION
from workspaces.http.examples import MOMENT, Example, page

EXPORT = "01a1f9d4-e1ab-7738-8a53-4e1b3bb4a570"
QUEUED_EXPORT = "01a1f9d4-e1ab-7738-8a53-4e1b3bb4a571"
TAR = "application/x-tar"

AN_EXPORT = {
    "id": EXPORT,
    "version": "filer:2",
    "format": "gguf",
    "options": {"quantisation": "Q4_K_M"},
    "state": "queued",
    "progress": 0.0,
    "digest": None,
    "report": {},
    "error": "",
    "created_at": MOMENT,
    "finished_at": None,
}
A_READY_EXPORT = AN_EXPORT | {
    "state": "ready",
    "progress": 1.0,
    "digest": DIGEST,
    "finished_at": MOMENT,
    "report": {
        "plan": {"format": "gguf", "cache": False, "quantisation": "Q4_K_M", "base_name": "", "parity_rows": 1000},
        "bytes": 397_807_200,
        "files": {"model-Q4_K_M.gguf": 397_807_200},
        "seconds_written": 41.2,
        "seconds_compared": 63.8,
        "parity": {
            "runtime": "llama.cpp in xllamacpp 2026.10.11549",
            "prompts": "held_out",
            "rows": 400,
            "texts": 83,
            "tokens_differ": [],
            "tokens_differ_count": 0,
            "limits": {},
            "decisions": 400,
            "equal_decisions": 0.9775,
            "bound": 0.95,
            "positions": 400,
            "kl": 0.0041,
            "kl_largest": 0.061,
            "top1": 0.9825,
            "version": {"accuracy": 0.905, "probability_of_right": 0.871},
            "export": {"accuracy": 0.9, "probability_of_right": 0.868},
            "refusals": [],
        },
        "details": {"types": {"F32": 121, "Q4_K": 144, "Q6_K": 25}, "fallbacks": {}, "notes": []},
        "warnings": [],
        "reward": {"version": 0.871, "export": 0.868, "change": -0.003},
    },
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "export_version": [
        Example(AN_EXPORT | {"format": "merged", "options": {}}, 201, path={"id": VERSION}),
        Example(
            AN_EXPORT, 201, {"format": "gguf", "quantisation": "Q4_K_M"}, path={"id": VERSION}, name="for llama.cpp"
        ),
    ],
    "versions_exports_list": [Example(page(A_READY_EXPORT), path={"id": VERSION})],
    "exports_retrieve": [Example(A_READY_EXPORT, path={"id": EXPORT})],
    "cancel_export": [
        Example(
            AN_EXPORT | {"id": QUEUED_EXPORT, "state": "failed", "error": "cancelled", "finished_at": MOMENT},
            path={"id": QUEUED_EXPORT},
        )
    ],
    "download_export": [Example("the archive filer-2-gguf-Q4_K_M.tar", path={"id": EXPORT}, media=TAR)],
}
