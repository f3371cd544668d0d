"""The command that brings labelled rows in: all of a good file, nothing of a bad one."""

import json

import pytest
from django.core.management import call_command

from models_registry.artifacts import artifact_path
from training.models import DatasetSnapshot

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
