"""Files of labelled texts: three formats read alike, and everything that is wrong told at once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from training.loops.rehearsal.source import Source, SourceError, read_source

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "cisa_kev" / "known_exploited_vulnerabilities.csv"


def records(count: int = 240) -> list[dict[str, object]]:
    return [{"body": f'note {n}, with "quotes"\nand lines', "topic": "ab"[n % 2], "n": n} for n in range(count)]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8-sig") as handle:
            writer = csv.DictWriter(handle, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return path


def read(path: Path, text: str = "body", label: str = "topic") -> Source:
    return read_source(path, text_field=text, label_field=label)


def faults(path: Path, text: str = "body", label: str = "topic") -> tuple[str, ...]:
    with pytest.raises(SourceError) as refused:
        read(path, text, label)
    return refused.value.faults


@pytest.mark.parametrize("name", ["notes.csv", "notes.jsonl", "notes.ndjson", "notes.json"])
def test_formats_are_read_alike(tmp_path: Path, name: str) -> None:
    source = read(write(tmp_path / name, records()))
    assert (len(source.examples), source.labels, source.unusable) == (240, ("a", "b"), 0)
    assert source.examples[16].id == "row-17" and source.examples[16].text.endswith('quotes"\nand lines')
    assert source.digest == read(write(tmp_path / "again.json", records())).digest


def test_numbers_and_truth_values_are_labels_too(tmp_path: Path) -> None:
    rows = [{"body": f"note {n}", "topic": [True, 3, 1.5][n % 3]} for n in range(240)]
    assert read(write(tmp_path / "n.jsonl", rows)).labels == ("1.5", "3", "true")


def test_what_cannot_be_used_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = [*records(), {"body": "  ", "topic": "a"}, {"body": "no label", "topic": None}, {"body": "none at all"}]
    rows += [records()[0], {**records()[0], "topic": "b"}]
    source = read(write(tmp_path / "n.jsonl", rows))
    assert (len(source.examples), source.unusable, source.repeated, source.contradicted) == (240, 3, 1, 1)


def test_semicolons_and_tabs_part_columns(tmp_path: Path) -> None:
    for delimiter in ";\t":
        lines = [delimiter.join(("body", "topic"))] + [f"note {n}{delimiter}{'ab'[n % 2]}" for n in range(240)]
        path = tmp_path / "n.csv"
        path.write_text("\n".join(lines))
        assert read(path).labels == ("a", "b")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("n.txt", b"x", "the ending '.txt' is unknown"),
        ("n.csv", b"", "holds no records"),
        ("n.csv", b"body,topic\n", "holds no records"),
        ("n.csv", b'body,topic\n"open,a\n', "n.csv:"),
        ("n.csv", b"\xff\xfe\x00", "not UTF-8 at byte 0"),
        ("n.csv", b"body,topic\nx,a\ny\0,b\n", "n.csv:3: contains a NUL"),
        ("n.json", b"{}", "holds an object but needs a list of objects"),
        ("n.json", b"[", "n.json: "),
        ("n.json", b"[1]", "record 1: a number instead of an object"),
        ("n.jsonl", b"{}\n[]\n", "n.jsonl:2: a list instead of an object"),
        ("n.jsonl", b"{\n", "n.jsonl:1: "),
        ("n.jsonl", b"[" * 100_000, "n.jsonl:1: "),
    ],
)
def test_an_unreadable_file_says_where(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert told in faults(tmp_path / name)[0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert faults(tmp_path / "none.csv") == (f"{tmp_path / 'none.csv'}: No such file or directory",)


def test_missing_fields_are_named_both_with_what_there_is(tmp_path: Path) -> None:
    told = faults(write(tmp_path / "n.jsonl", records()), "text", "label")
    assert len(told) == 2
    assert "text field 'text'" in told[0] and "'body', 'topic', 'n'" in told[0] and "label field 'label'" in told[1]
    assert "must differ" in faults(write(tmp_path / "n.jsonl", records()), "topic", "topic")[0]


def test_a_value_that_is_no_text(tmp_path: Path) -> None:
    rows = [*records(), {"body": ["a"], "topic": "a"}, {"body": "x", "topic": {}}]
    told = faults(write(tmp_path / "n.jsonl", rows))
    assert told == (
        "n.jsonl: record 241: body is a list but needs a text",
        "n.jsonl: record 242: topic is an object but needs a text",
    )


def test_one_label_only_and_too_few_rows_are_told_together(tmp_path: Path) -> None:
    rows = [{"body": f"note {n}", "topic": "a"} for n in range(50)]
    told = faults(write(tmp_path / "n.csv", rows))
    assert len(told) == 2 and "'a' alone" in told[0] and "50 usable records" in told[1]


def test_labels_with_one_example_are_listed(tmp_path: Path) -> None:
    rows = [*records(), *({"body": f"odd {n}", "topic": f"only {n}"} for n in range(10))]
    (told,) = faults(write(tmp_path / "n.csv", rows))
    assert "10 labels have one example only: 'only 0', 'only 1'" in told and "and 2 more" in told


def test_too_many_labels_are_probably_not_the_label(tmp_path: Path) -> None:
    (told,) = faults(write(tmp_path / "n.jsonl", records()), "body", "n")
    assert "240 labels, but at most 200" in told


@pytest.mark.skipif(not REAL.exists(), reason="the vulnerability catalogue is not here")
def test_a_real_file() -> None:
    source = read_source(REAL, text_field="shortDescription", label_field="knownRansomwareCampaignUse")
    assert source.labels == ("Known", "Unknown") and len(source.examples) > 1000
