"""Bodies that the engine's servers read in several threads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from training.engine.serving import requests


def test_a_type_is_learnt_once_and_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, make = [], msgspec.json.Decoder

    def learn(kind: Any) -> Any:
        alone.append(requests._making.locked())
        return make(kind)

    monkeypatch.setattr(requests, "_decoders", {})
    monkeypatch.setattr(msgspec.json, "Decoder", learn)
    for _ in range(2):
        assert requests.parse(b'{"model": "filer"}', requests.LoadBody).model == "filer"
    assert alone == [True]
