"""Bodies made to cost much are refused for little: a second of the processor's time and 200 MB each."""

import json
import subprocess
import sys

import pytest

SECONDS, MEGABYTES = 1.0, 200.0


@pytest.mark.slow
def test_each_is_refused_within_a_second_and_200_megabytes():
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile_bodies"], capture_output=True, text=True, timeout=120, check=True
    )
    costs = json.loads(done.stdout)
    assert len(costs) == 16
    assert {name: cost for name, cost in costs.items() if not cost["refused"]} == {}
    dear = {n: cost for n, cost in costs.items() if cost["seconds"] > SECONDS or cost["megabytes"] > MEGABYTES}
    assert dear == {}
