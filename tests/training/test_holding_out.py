"""Which decisions a dataset holds out: in environments by task, and never most of them."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.training.test_dataset_shapes import decide, reward, rows_of
from tools.factories import AgentVersionFactory
from training.datasets.of_labels import snapshot_labels
from training.datasets.snapshots import snapshot_ledger
from training.engine.environments.agents import ExpertAgent, act_now
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.errors import EmptyDataset
from training.models import DatasetSnapshot
from training.rows.labels import LabelQuestion
from training.rows.splitting import _fraction
from workspaces.storage.ids import uuid7_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("kind", ["logged", "labelled"])
@pytest.mark.quick_cases(1)
@pytest.mark.slow
def test_decisions_in_an_environment_are_held_out_by_task(agent: Any, by: Any, store: Path, kind: str) -> None:
    """Their observations are made alike, and one user asked for all of them: yet about a fifth is held out."""
    equations, moment = find_environment("equations"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    AgentVersionFactory(agent=agent, action_space="choice", options=None, prompt_template="{{ observation }}")
    for number, task in enumerate(draw_tasks(equations, 60, "train")):
        twice = number % 2  # the same task under another name
        for place, step in enumerate(act_now(ExpertAgent(), equations(), task).trajectory):
            state = {"environment": "equations", "domain": "math", "task": task.text, "observation": step.state}
            decide(
                agent, step.action, id=uuid7_of(moment, f"{number}/{place}".encode()), state=state,
                options=list(step.options), unit="ann", item_ref=f"{task.id}-{twice}",
            )  # fmt: skip
    reward(agent)
    if kind == "logged":
        kept = snapshot_ledger(by=by, agent=agent, name="steps", held_out=0.2)
    else:
        kept = snapshot_labels(by=by, agent=agent, name="steps", question=LabelQuestion(kind="labelled"), held_out=0.2)
    held = DatasetSnapshot.objects.get(id=kept.statistics["held_out"])
    assert 0.1 < held.rows / (kept.rows + held.rows) < 0.3
    sides = [{row["prompt"].partition(". Now:")[0] for row in rows_of(part)} for part in (kept, held)]
    assert min(map(len, sides)) > 6 and not sides[0] & sides[1]
    groups = [{row["group"] for row in rows_of(part)} for part in (kept, held)]
    assert [len(side) for side in groups] == [len(side) for side in sides]  # what the engine holds back by


def test_it_is_refused_where_most_would_be_held_out(agent: Any, by: Any, store: Path) -> None:
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    # A group stands where its oldest decision puts it.
    ids = (uuid7_of(moment + dt.timedelta(seconds=place), b"%d" % place) for place in itertools.count())
    decide(agent, "travel", id=next(pk for pk in ids if _fraction(pk) < 0.2), unit="ann")
    for _ in range(8):
        decide(agent, "travel", id=next(ids), unit="ann")
    decide(agent, "travel", id=next(pk for pk in ids if _fraction(pk) > 0.2), unit="bob", state={"text": "other"})
    reward(agent)
    with pytest.raises(EmptyDataset) as refused:
        snapshot_ledger(by=by, agent=agent, name="both", held_out=0.2)
    [fault] = refused.value.faults
    assert fault.field == "held_out"
    assert fault.reason.startswith("9 of 10 decisions belong together (")
    assert fault.reason.endswith("so 90% would be held out instead of 20%")
    assert not DatasetSnapshot.objects.exists()
