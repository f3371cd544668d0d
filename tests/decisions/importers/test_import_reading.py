"""Files into records: lists longer than a chunk, broken ones, odd bytes, places; and the limits on each record."""

import datetime as dt
import gzip
import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.importers import opening, reading
from decisions.importers.reading import find_end, find_files, read_csv, read_json
from decisions.importers.records import Reading, Record, Refusal, Refused, parse_moment, slug_of
from decisions.importers.spill import LARGEST_GROUP, Spill

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\{[]},', max_size=3), inner, max_size=3),
    max_leaves=8,
)


def told(**fields):
    return Reading(name="test", workspace="w", now=NOW, **fields)


def read(path):
    return list(read_json(path, told()))


@pytest.fixture
def file(tmp_path):
    def write(content, name="values.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.slow
@given(
    values=st.lists(VALUES.filter(lambda value: isinstance(value, dict)), max_size=6), indent=st.sampled_from([None, 1])
)
def test_a_list_comes_out_as_it_went_in_however_it_is_cut(tmp_path_factory, values, indent):
    path = tmp_path_factory.mktemp("cut") / "values.json"
    path.write_text(json.dumps(values, indent=indent))
    for chunk in (1, 7, 1 << 18):
        reading.CHUNK, kept = chunk, reading.CHUNK
        try:
            assert [record.value for record in read(path)] == values
        finally:
            reading.CHUNK = kept


def test_places_are_the_lines_where_records_begin(file):
    values = [{"n": n, "text": "x" * random.Random(n).randrange(3000)} for n in range(2000)]
    text = json.dumps(values, indent=1)
    found = read(file(text))
    starts = [number for number, line in enumerate(text.split("\n"), start=1) if line == " {"]
    assert [record.place.line for record in found] == starts
    assert [record.value["n"] for record in found] == list(range(2000))


@pytest.mark.parametrize(
    ("content", "values", "refused"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', [1, 2], []),
        ('\ufeff{"a": 1}\r\n{"a": 2}', [1, 2], []),
        ('{"a": 1}\nnonsense}\n{"a": 3}', [1, 3], ["2: is not JSON"]),
        ('nonsense}\n{"a": 2}', [2], ["1: is not JSON"]),
        ('{\n "a": 1\n}\n{\n "a": 2\n}\n', [1, 2], []),
        ('[{"a": 1}, {"a": 2}', [1, 2], ["1: the list is not closed"]),
        ('[{"a": 1},\n {"a": 2', [1], ["2: is not JSON, or is cut off"]),
        ('[{"a": 1},\n {"a": NaN}, {"a": 3}]', [1, 3], ["2: is not JSON"]),
        ('[{"a": 1},\n {"a": "\\ud800"}]', [1], ["2: The record contains a lone surrogate"]),
        ('[{"a": 123456789012345678901234}]', [], ["1: The integer"]),
        (b'{"a": 1}\n{"a": "\xff"}\n', [1], ["2: is not UTF-8"]),
        (b'[{"a": 1},\n{"a": "\xff"}]', [1], ["2: is not UTF-8"]),
    ],
)
def test_what_is_broken_is_named_and_the_rest_is_read(file, content, values, refused):
    found = read(file(content))
    assert [record.value["a"] for record in found if isinstance(record, Record)] == values
    said = [f"{item.place.line}: {item.reason}" for item in found if isinstance(item, Refusal)]
    assert len(said) == len(refused), said
    assert all(one.startswith(start) for one, start in zip(said, refused, strict=True)), said


def test_a_record_may_not_be_longer_than_the_limit(file, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_RECORD", 1000)
    monkeypatch.setattr(reading, "CHUNK", 64)
    long = json.dumps({"a": "x" * 2000})
    found = read(file(f'{{"a": 1}}\n{long}\n{{"a": 3}}\n'))
    assert [item.value["a"] if isinstance(item, Record) else item.place.line for item in found] == [1, 2, 3]
    found = read(file(f'[{{"a": 1}},\n{long}, {{"a": 3}}]'))
    assert [item.value["a"] if isinstance(item, Record) else item.place.line for item in found] == [1, 2]
    assert "the rest of the file is not read" in found[-1].reason


def test_a_table_s_broken_rows_are_named(file):
    path = file('a,b\n1,2\n"x\ny",3\n4\n5,6\0\n7,8\n', "table.csv")
    found = list(read_csv(path, told()))
    assert [item.value if isinstance(item, Record) else str(item)[len(str(path)) :] for item in found] == [
        {"a": "1", "b": "2"},
        {"a": "x\ny", "b": "3"},
        ":5: has 1 cells, but the first line names 2",
        ":6: contains a NUL character, which is not allowed",
        {"a": "7", "b": "8"},
    ]
    assert [item.place.line for item in found] == [2, 3, 5, 6, 7]
    assert "two columns" in next(read_csv(file("a,a\n1,2\n", "two.csv"), told())).reason


def test_bytes_are_told_as_they_are_read(file):
    for name, content in (
        ("a.jsonl", '{"a": 1}\n' * 50),
        ("a.json", json.dumps([{"a": "é"}] * 50, ensure_ascii=False)),
    ):
        counted = []
        path = file(content, name)
        list(read_json(path, told(advance=counted.append)))
        assert sum(counted) == path.stat().st_size
    path = file("a\n" + "1\n" * 50, "a.csv")
    counted = []
    list(read_csv(path, told(advance=counted.append)))
    assert sum(counted) == path.stat().st_size


def test_a_folder_s_files_come_in_order_of_their_names(file, tmp_path):
    for name in ("b.jsonl", "a.jsonl", "notes.txt"):
        file("", name)
    assert [path.name for path in find_files(tmp_path, (".jsonl",))] == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("2019-08-13T20:40:28.7880000Z", "2019-08-13T20:40:28.788000+00:00"),
        ("2024-05-29 13:46:19.963000", "2024-05-29T13:46:19.963000+00:00"),
        ("2024-05-29T13:46:19+02:00", "2024-05-29T11:46:19+00:00"),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(given_, expected):
    assert parse_moment(given_, "t").isoformat() == expected


@pytest.mark.parametrize("given_", ["soon", 17, "0001-01-01T00:00:00+14:00"])
def test_what_is_no_time_is_refused(given_):
    with pytest.raises(Refused):
        parse_moment(given_, "t")


def test_slugs():
    assert [slug_of(name) for name in ("Support bot", "--", "filer_2", "Ä" * 3, "x" * 80)] == [
        "support-bot",
        "",
        "filer_2",
        "",
        "x" * 63,
    ]


def test_rows_that_lie_apart_are_brought_together(file):
    place = Refusal and read(file('{"a": 1}'))[0].place
    with Spill() as spill:
        for number in range(1000):
            spill.add(str(number % 7), "kind", place, {"n": number})
        groups = dict(spill.groups())
        assert sorted(groups) == [str(n) for n in range(7)]
        assert [row.value["n"] for row in groups["3"]] == list(range(3, 1000, 7))
        assert [spill.first_time("a", "b"), spill.first_time("a", "b"), spill.first_time("ab")] == [True, False, True]
        for number in range(LARGEST_GROUP + 10):
            spill.add("big", "kind", place, number)
        assert len(dict(spill.groups())["big"]) == LARGEST_GROUP + 1


LINES = '{"a": "é"}\n{"a": 2}\n'


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (LINES.encode("utf-8-sig"), "a.jsonl"),
        (LINES.encode("utf-8-sig") + LINES.encode("utf-8-sig"), "twice.jsonl"),
        (LINES.encode("utf-16"), "a.jsonl"),
        (LINES.encode("utf-16-le"), "a.jsonl"),
        (b"\xfe\xff" + LINES.encode("utf-16-be"), "a.jsonl"),
        (LINES.encode("utf-32"), "a.jsonl"),
        (gzip.compress(LINES.encode()), "a.jsonl.gz"),
        (gzip.compress(LINES.encode("utf-16")), "a.jsonl.gz"),
        (gzip.compress('[{"a": "é"}, {"a": 2}]'.encode("utf-8-sig")), "a.json.GZ"),
    ],
    ids=["bom", "boms", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "packed", "packed-utf-16", "packed-list"],
)
def test_files_of_other_encodings_and_packed_ones_are_read_as_they_are(file, content, name):
    path = file(content, name)
    assert find_files(path, [".json", ".jsonl"]) == [path]
    assert [record.value["a"] for record in read(path)][:2] == ["é", 2]


def test_a_table_may_be_packed_and_of_another_encoding(file):
    path = file(gzip.compress("a;b\nä;2\n".encode("utf-16")), "t.csv.gz")
    assert [record.value for record in read_csv(path, told())] == [{"a": "ä", "b": "2"}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no gzip", "is not a gzip file, or is cut off"),
        (gzip.compress(LINES.encode() * 9)[:-12], "is not a gzip file, or is cut off"),
        (gzip.compress(LINES.encode("utf-16")[:-1]), "is not UTF-16, as it begins"),
    ],
    ids=["no gzip", "cut off", "half a character"],
)
def test_a_damaged_packed_file_is_one_refusal(file, content, reason):
    [refusal] = read(file(content, "a.jsonl.gz"))
    assert isinstance(refusal, Refusal) and refusal.reason.startswith(reason)


def test_a_packed_file_that_grows_too_large_is_refused(file, monkeypatch):
    monkeypatch.setattr(opening, "LARGEST", 100)
    [refusal] = read(file(gzip.compress(LINES.encode() * 99), "a.jsonl.gz"))
    assert refusal.reason == "holds more than 0 MiB unpacked"


@pytest.mark.slow
def test_entries_that_are_no_json_cost_what_they_are_long(file):
    began = time.process_time()
    found = read(file(b"[" + b"{x}," * 100_000 + b"{}]"))
    assert [type(one) for one in found[-2:]] == [Refusal, Record] and len(found) == 100_001
    assert time.process_time() - began < 12  # it was 25, and more than twice that for twice as many


def test_values_longer_than_the_first_piece_that_is_looked_at_are_read_and_skipped_whole(file):
    long = "x[" * 5000
    content = json.dumps([{"a": long}, 1]) + json.dumps({"a": [long, {"b": long}]}) + "[1]"
    assert find_end(content, 0, ended=True) == len(json.dumps([{"a": long}, 1]))
    broken = '[{"a": "' + long + '", x}, {"b": 2}, 12]'
    refusal, *records = read(file(broken.encode()))
    assert isinstance(refusal, Refusal) and [record.value for record in records] == [{"b": 2}, 12]


class CountedPattern:
    """The pattern of brackets, with the number of steps that were taken with it."""

    def __init__(self, pattern):
        self.pattern, self.steps = pattern, 0

    def match(self, *place):
        self.steps += 1
        return self.pattern.match(*place)


@pytest.fixture
def steps(monkeypatch):
    counted = CountedPattern(reading.NEXT_BRACKETS)
    monkeypatch.setattr(reading, "NEXT_BRACKETS", counted)
    return lambda: counted.steps


@pytest.mark.parametrize(
    ("content", "most"),
    [
        (b"[" * 500_000, 100),  # it was more than a million
        (b"[" * 250_000 + b"]" * 250_000, 100),
        (b'{"a":' * 100_000, 100_100),  # each bracket once; it was 187,000
        (b"[" + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]", 100_100),
    ],
    ids=["lists", "closed lists", "objects", "closed objects"],
)
def test_the_brackets_of_a_value_are_counted_once(file, steps, content, most):
    [refusal] = read(file(content, "a.jsonl"))
    assert isinstance(refusal, Refusal) and steps() <= most


def test_what_follows_a_deeply_nested_value_is_read(file):
    content = b"[" + b"[" * 300_000 + b"]" * 300_000 + b', {"a": 1}]'
    refusal, record = read(file(content))
    assert isinstance(refusal, Refusal) and "nested deeper" in refusal.reason and record.value == {"a": 1}


@given(st.text('[]{}"x\\\n,', max_size=40), st.data())
def test_an_end_is_the_same_in_one_piece_and_in_many(text, data):
    """Of brackets alone: the value's own decoder may end it elsewhere."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    whole, closing = reading.Closing().find(text), reading.Closing()
    ends = [closing.find(text[:cut]) for cut in [*cuts, len(text)]]
    assert next((end for end in ends if end is not None), None) == whole
