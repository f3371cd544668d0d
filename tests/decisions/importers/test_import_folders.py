"""Folders of files, and zips of them: one bad file never takes its neighbours along, and each file has its report."""

import io
import json
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from decisions.importers import archives
from decisions.models import Decision
from jobs.models import Job
from jobs.runner import run_job
from tests.decisions.importers.test_import_toolbox import FLAGS, trace
from tools.factories import AgentFactory, AgentVersionFactory

pytestmark = pytest.mark.django_db


def tree(folder, **more):
    """Traces of three days, as ToolBox keeps them, and `more` files by their path."""
    for day in (1, 2, 3):
        told = trace(trace_id=f"t{day}", timestamp=f"2025-11-0{day}T10:00:00")
        put(folder / f"2025-11-0{day}" / f"t{day}.json", json.dumps(told, indent=2))
    for path, content in more.items():
        put(folder / path, content)
    return folder


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


BAD = {
    "2025-11-01/cut.json": '{"trace_id": "cut", "user_query": "Who',
    "2025-11-02/bytes.json": b"\xff\xfe\x00{",
    "2025-11-02/empty.json": "",
    "2025-11-03/list.json": json.dumps([trace(trace_id="t4", timestamp="2025-11-03T11:00:00"), {"other": 1}]),
    "2025-11-03/notes.txt": "not read",
}


def pack(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return path


@pytest.mark.parametrize("zipped", [False, True])
def test_bad_files_are_named_and_their_neighbours_are_in(importing, tmp_path, zipped):
    source = tree(tmp_path / "traces", **BAD)
    if not zipped:
        (source / "2025-11-02" / "disk.json").symlink_to("/proc/self/mem")  # a read of it fails
    path = pack(source, tmp_path / "traces.zip") if zipped else source
    report = tmp_path / "report.jsonl"
    done = importing(path, *FLAGS, "--report", str(report))
    assert (done.code, done.report["decisions"]) == (1, 4), done.errors
    bad = {"2025-11-01/cut.json", "2025-11-02/bytes.json", "2025-11-03/list.json"}
    bad |= set() if zipped else {"2025-11-02/disk.json"}
    told = done.report["files"]
    assert {name.removeprefix(f"{path}/") for name in told["refused"]} == bad
    assert (told["read"], [name.removeprefix(f"{path}/") for name in told["empty"]]) == (
        7 if zipped else 8,
        ["2025-11-02/empty.json"],
    )
    files = {one["file"].removeprefix(f"{path}/"): one for one in map(json.loads, report.read_text().splitlines())}
    assert set(files) == bad | {"2025-11-02/empty.json"} | {f"2025-11-0{day}/t{day}.json" for day in (1, 2, 3)}
    assert files["2025-11-01/t1.json"] == {
        "file": f"{path}/2025-11-01/t1.json",
        "records": 1,
        "repeated": 0,
        "refused": 0,
        "reasons": [],
    }
    mixed = files["2025-11-03/list.json"]
    assert (mixed["records"], mixed["refused"], mixed["reasons"]) == (1, 1, ["user_query: is missing or not text"])
    assert f"{path}/2025-11-01/cut.json:1: " in done.errors
    again = importing(path, *FLAGS)
    assert (again.report["decisions"], Decision.objects.count()) == (0, 4)


def zip_of(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_a_zip_writes_nowhere_else_and_names_that_clash_are_said(importing, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    told = [json.dumps(trace(trace_id=f"t{number}")) for number in range(4)]
    path = zip_of(
        inside / "a.zip",
        ("../../evil.json", told[0]),
        ("/abs.json", told[1]),
        ("d:x.json", told[2]),
        ("d_x.json", told[3]),
    )
    done = importing(path, *FLAGS)
    assert (done.report["decisions"], done.report["refused"]) == (3, 1)
    assert f"{path}/d_x.json:1: has the name of another file in the zip" in done.errors
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a.zip", "inside"]


def test_a_member_that_is_broken_leaves_the_others(importing, tmp_path):
    good, bad = json.dumps(trace(trace_id="good")), json.dumps(trace(trace_id="bad"))
    path = zip_of(tmp_path / "a.zip", ("good.json", good), ("bad.json", bad))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"bad"', b'"BAD"', 1))  # its checksum is another now
    done = importing(path, *FLAGS)
    assert (done.code, done.report["decisions"]) == (1, 1)
    assert f"{path}/bad.json:1: cannot be unpacked: Bad CRC-32" in done.errors


def test_what_no_zip_should_be_is_refused(importing, tmp_path, monkeypatch):
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 not really")
    assert "is not a zip that can be read" in importing_fault(importing, tmp_path / "no.zip")
    none = zip_of(tmp_path / "none.zip", ("readme.txt", "x"))
    assert "holds no file that ends in .json" in importing_fault(importing, none)
    bomb = zip_of(tmp_path / "bomb.zip", ("a.json", " " * 4_000_000))
    monkeypatch.setattr(archives, "LARGEST", 1 << 20)
    assert "holds more than 1 MiB" in importing_fault(importing, bomb)
    monkeypatch.setattr(archives, "MOST_FILES", 1)
    assert "holds 2 files" in importing_fault(importing, zip_of(tmp_path / "two.zip", ("a.json", ""), ("b.json", "")))
    assert Decision.objects.count() == 0


def importing_fault(importing, path):
    done = importing(path, *FLAGS)
    assert done.code == 2
    return done.errors


def test_pages_take_a_zip_and_give_one(workspace, owner, viewer, page_client, tmp_path, store):
    """From the file to the ledger and back, by pages alone."""
    source = tree(tmp_path / "traces", **BAD)
    data = pack(source, tmp_path / "traces.zip").read_bytes()
    client = page_client(owner)
    form = {"file": SimpleUploadedFile("traces.zip", data), "format": "toolbox", "agent": "", "create_agents": "on"}
    answer = client.post(reverse("pages:import-new", args=[workspace.slug]) + "?what=decisions", form)
    assert answer.status_code == 400  # these traces name no agent
    assert b"names no agent" in answer.content
    agent = AgentFactory(workspace=workspace, slug="isaa")
    AgentVersionFactory(agent=agent, action_space="text", options=None)
    form |= {"file": SimpleUploadedFile("traces.zip", data), "agent": "isaa"}
    answer = client.post(reverse("pages:import-new", args=[workspace.slug]) + "?what=decisions", form)
    assert answer.status_code == 302, answer.content
    preview = client.get(answer.url).content.decode()
    assert "2025-11-01/cut.json:1" in preview and "4 decisions" in preview and "/incoming/" not in preview
    client.post(answer.url, {})
    job = Job.objects.get()
    run_job(job.id)
    page = client.get(reverse("pages:import", args=[workspace.slug, job.id])).content.decode()
    assert "7 read, 3 with records left out, 1 empty" in page and "2025-11-03/list.json:1" in page
    path = reverse("pages:agent-traces", args=[workspace.slug, "isaa"])
    reader = page_client(viewer)
    assert "Download traces" in reader.get(path).content.decode()
    answer = reader.get(path, {"download": "1", "since": "2025-11-02"})
    names = zipfile.ZipFile(io.BytesIO(answer.getvalue())).namelist()
    assert names == ["2025-11-02/t2.json", "2025-11-03/t3.json", "2025-11-03/t4.json"]
    refused = reader.get(path, {"download": "1", "since": "2030-01-01"})
    assert refused.status_code == 400 and b"No traces match." in refused.content
    assert reader.get(path, {"download": "1", "since": "May"}).status_code == 400
