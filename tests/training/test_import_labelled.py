"""The commands that bring rows in: all of a good file, nothing of a bad one."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tools.factories import AgentVersionFactory, DecisionFactory, FeedbackFactory
from training.engine.data.reading import read_rows
from training.engine.data.row_types import ROW_TYPES
from training.engine.spec.methods import RowKind
from training.models import DatasetKind, DatasetSnapshot

pytestmark = pytest.mark.django_db
ROW = {"id": "1", "prompt": "a graph", "options": ["graphs", "web"], "answer": "graphs", "group": "module"}


def import_rows(tmp_path, agent, *lines):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    call_command("import_labelled", str(path), "--agent", agent.slug, "--name", "gold", "--json")


def test_a_good_file_becomes_a_dataset(tmp_path, agent, capsys):
    import_rows(tmp_path, agent, ROW, ROW | {"id": "2"})
    said = json.loads(capsys.readouterr().out)
    dataset = DatasetSnapshot.objects.get(id=said["dataset"])
    assert (dataset.kind, dataset.rows, said["rows"]) == ("labelled", 2, 2)
    stored = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    assert json.loads(stored[0]) == ROW


def test_every_fault_is_named_with_its_line_and_nothing_is_written(tmp_path, agent, capsys):
    with pytest.raises(SystemExit) as stopped:
        import_rows(tmp_path, agent, ROW, ROW, ROW | {"id": "3", "answer": "tables"}, "{", {"id": "4"})
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    for line in (2, 3, 4, 5):
        assert f"rows.jsonl:{line}: " in said
    assert not DatasetSnapshot.objects.exists()


def test_an_unknown_agent_is_refused(tmp_path, agent, capsys):
    agent.slug = "nobody"
    with pytest.raises(SystemExit):
        import_rows(tmp_path, agent, ROW)
    assert "--agent: 0 agents" in capsys.readouterr().err


class TestTexts:
    @pytest.mark.parametrize("format", ["chat", "completion"])
    @pytest.mark.parametrize("kind", [DatasetKind.LOGGED, DatasetKind.TEXT])
    def test_what_an_export_wrote_becomes_a_dataset_of_what_the_agent_does(
        self, agent: Any, store: Path, tmp_path: Path, format: str, kind: DatasetKind
    ) -> None:
        about: dict[str, Any] = {"agent": agent, "action": "finance"}
        if kind == DatasetKind.TEXT:
            version = AgentVersionFactory(agent=agent, action_space="text", options=None)
            about |= {"agent_version": version, "options": None, "propensity": None}
        made = [DecisionFactory(**about, state={"text": f"note {number}"}) for number in range(2)]
        for decision, verdict in zip(made, ("confirmed", "corrected"), strict=True):
            FeedbackFactory(decision=decision, value=verdict)
        calculate_rewards(current_reward_spec(agent))
        file = tmp_path / "filer.jsonl"
        call_command("export_training_data", "--agent-type", "FILER", "--output", str(file), "--format", format)
        call_command("import_texts", str(file), "--agent", "filer", "--name", "texts", stdout=StringIO())
        dataset = DatasetSnapshot.objects.get()
        kind_of_row: Any = ROW_TYPES[RowKind(kind)]
        rows: list[Any] = read_rows(artifact_path(dataset.artifact.digest) / "rows.jsonl", kind_of_row)
        # A text's line does not say by which spec it was valued; the rows of a choice have the spec's own scale.
        wrong, right = (0.375, 0.75) if kind == DatasetKind.TEXT else (0.0, 1.0)
        assert [(row.id, row.reward, row.raw, row.right) for row in rows] == [
            (str(made[1].id), wrong, -0.5, 0.0),
            (str(made[0].id), right, 1.0, 1.0),
        ]
        if kind == DatasetKind.TEXT:
            assert (rows[0].prompt, rows[0].completion) == ("note 1", "finance")
        else:
            offered = tuple(made[1].options)
            assert (rows[0].action, rows[0].options, rows[0].propensity) == ("finance", offered, made[1].propensity)
        assert "note 1" in rows[0].prompt
        assert (dataset.kind, dataset.is_imported, dataset.statistics["right"]) == (kind, True, 1)

    def test_every_fault_is_named_and_nothing_is_written(self, agent: Any, store: Path, tmp_path: Path) -> None:
        file = tmp_path / "bad.jsonl"
        good = {"prompt": "p", "completion": "c", "metadata": {"decisionId": "1"}}
        file.write_text("\n".join(["{", json.dumps({"messages": []}), json.dumps(good), json.dumps(good)]))
        err = StringIO()
        with pytest.raises(SystemExit) as code:
            call_command("import_texts", str(file), "--agent", "filer", "--name", "texts", stderr=err)
        assert code.value.code == 2 and not DatasetSnapshot.objects.exists()
        assert [line.split(": ")[0].rpartition(":")[2] for line in err.getvalue().splitlines()] == ["1", "2", "4"]


@pytest.mark.parametrize("command", ["import_dataset", "import_texts"])
def test_other_programs_rows_become_a_dataset_of_their_kind(
    command: str, agent: Any, store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "alpaca.json"
    file.write_text(json.dumps([{"instruction": "Q", "input": "", "output": "A"}]))
    call_command(command, str(file), "--agent", "filer", "--name", "taught", stdout=StringIO())
    assert DatasetSnapshot.objects.get().kind == DatasetKind.TEXT


def test_a_file_without_labelled_rows_names_the_command_that_imports_it(tmp_path, agent, capsys):
    with pytest.raises(SystemExit):
        import_rows(tmp_path, agent, {"prompt": "Q", "chosen": "A", "rejected": "B"})
    assert "holds no labelled rows; import_dataset imports rows of other kinds" in capsys.readouterr().err
