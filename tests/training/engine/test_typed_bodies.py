"""Bodies that the engine's servers read in several threads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from training.engine.serving import chat_requests, requests


def test_no_request_is_the_first_to_use_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def learn(*_: Any, **__: Any) -> Any:
        raise AssertionError("a type is learnt while a request is read")

    monkeypatch.setattr(msgspec.json, "Decoder", learn)
    monkeypatch.setattr(msgspec.json, "decode", learn)
    assert requests.parse(b'{"model": "filer"}', requests.READ_LOAD).model == "filer"
    for raw, read in ((b"{}", requests.READ_SCORE), (b"{}", chat_requests.READ_CHAT)):
        with pytest.raises(requests.Fault, match="missing required field"):
            requests.parse(raw, read)
