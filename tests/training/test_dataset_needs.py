"""What the statistics of a dataset say that its rows have is what the engine finds when it reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.engine.data.reading import RunData, read_rows
from training.engine.rows.types import Logged, Text
from training.engine.spec.methods import Need, RowKind
from training.engine.spec.run_spec import RunSpec
from training.models import DatasetSnapshot
from training.rows.parts import Part

VALUES = st.none() | st.sampled_from([0.0, 0.3, 0.6, 0.7, 1.0])
ROWS = st.lists(st.tuples(st.sampled_from(["Ann", "ann ", "Bob"]), st.sampled_from([0.0, 0.4, 0.7, 1.0]), VALUES))


def spec_for(right_from: float, kind: RowKind) -> RunSpec:
    told = {"method": "grpo", "run_id": "check", "base": {"path": "/base"}, "data": {"train": "rows", "rows": kind}}
    return RunSpec.model_validate(told | {"kto": {"right_from": right_from}})


@pytest.mark.parametrize("kind", [RowKind.LOGGED, RowKind.TEXT])
@given(
    drawn=ROWS.filter(len),
    right_from=st.sampled_from([0.2, 0.6, 1.0]),
    silent=st.booleans(),
    times=st.sampled_from([1, 20]),
)
def test_statistics_say_what_the_engine_finds(
    tmp_path_factory: Any,
    kind: RowKind,
    drawn: list[tuple[str, float, float | None]],
    right_from: float,
    silent: bool,
    times: int,
) -> None:
    part = Part(tmp_path_factory.mktemp("rows") / "all")
    for number, (prompt, reward, right) in enumerate(drawn * times):
        row: dict[str, Any] = {"id": str(number), "prompt": prompt, "reward": reward}
        if kind is RowKind.LOGGED:
            row |= {"options": ["a", "b"], "action": "a", "propensity": None if right == 0.3 else 0.5}
        else:
            row |= {"completion": "a", "reward": None if silent else reward}
        part.write(row | ({"right": right} if right is not None and not silent else {}))
    part.close()
    dataset = DatasetSnapshot(kind=kind, rows=part.tally.rows, statistics=part.tally.as_plain())
    file = part.folder / "rows.jsonl"
    if kind is RowKind.LOGGED:
        data = RunData(logged=read_rows(file, Logged))
    else:
        data = RunData(texts=read_rows(file, Text))
    spec = spec_for(right_from, kind)
    read = {Need.REWARDS, Need.RIGHT_AND_WRONG}
    if kind is RowKind.LOGGED:
        read |= {Need.PROPENSITY, Need.ANY_PROPENSITY, Need.PROPENSITY_OR_MODEL, Need.GROUPS}
    else:
        read |= {Need.RIGHT_TEXTS, Need.REWARDED_GROUPS}
    assert dataset.find_has(right_from) == {need for need in read if data.has(need, spec)}
