"""Requests made up from the OpenAPI document by schemathesis: usable ones, and ones that break the schema on purpose.

The tests send some hundreds through Django, `make accept` thousands over HTTP. Whoever sends decides what is a failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import requests
import schemathesis.openapi
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode

BASE = "http://testserver"


def send_generated(
    document: dict[str, Any],
    send: Callable[[requests.PreparedRequest], None],
    *,
    each: int,
    known: Mapping[str, str],
    seed: int = 0,
) -> int:
    """Makes up to `each` requests an operation and mode, the same for the same seed; returns how many were sent.

    `known` are path parameters that exist (`slug`, `id`): every second request gets them, so that it comes further than
    a 404.
    """
    sent = 0
    rng = random.Random(seed)
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            def one(case: Any) -> None:
                nonlocal sent
                if case.path_parameters and rng.random() < 0.5:
                    case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
                send(requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare())
                sent += 1

            settings = hypothesis.settings(
                max_examples=each,
                deadline=None,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
                phases=[hypothesis.Phase.generate],
            )
            try:
                hypothesis.seed(seed)(settings(hypothesis.given(operation.as_strategy(generation_mode=mode))(one)))()
            except Unsatisfiable:
                continue  # an operation without parameters has no request that breaks its schema
    return sent
