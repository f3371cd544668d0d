"""A model server over the store, for tests of what runs have made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models_registry.backends.outbound import close_clients
from tools.model_server import running_model_server


@pytest.fixture
def served(store: Path, settings: Any) -> Iterator[None]:
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        yield
        close_clients()
