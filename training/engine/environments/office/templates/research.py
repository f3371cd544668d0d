"""Research: summaries, reading lists, authors."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    asked,
    desk,
    shared,
    told,
)


def summary(draw: Draw) -> Job:
    reader, room = draw.person("reader"), draw.channel("room")
    text = draw.promise()
    notes = draw.text_file("notes", text)
    return Job(
        (
            "Read the summary {notes}, post it in {room} and share it with {reader}.",
            "Post the summary {notes} in {room} and share it with {reader}.",
        ),
        ("read {notes}", "post {room}", "share {reader}"),
        (desk("summary", [[text]]), told(room, text), shared(notes, reader)),
    )


def papers(draw: Draw) -> Job:
    reader = draw.person("reader")
    wanted = draw.pick(FIELDS)
    fields = draw.values(FIELDS, 7, wanted)
    rows: Rows = [list(row) for row in zip(draw.random.sample(TITLES, 7), fields, strict=True)]
    draw.table("data", ("title", "field"), rows)
    kept = [row for row in rows if row[1] == wanted]
    return Job(
        (
            f"List the titles on {wanted} in {{data}} and tell {{reader}}.",
            f"Tell {{reader}} which titles in {{data}} are on {wanted}: a list of titles only.",
        ),
        ("query {data}", f"keep {wanted}", "list title", "tell {reader}"),
        (
            desk("papers", rows),
            desk(wanted, kept),
            desk("titles", [[title] for title, _ in kept]),
            told(reader, *[title for title, _ in kept], lacks=[*[title for title, _ in rows], wanted]),
        ),
    )


def author(draw: Draw) -> Job:
    answer = draw.promise()
    most, room = draw.person("most", answer), draw.channel("room")
    some = draw.crowd(4)
    draw.bystander(some[0])
    cited = draw.numbers(5)
    rows: Rows = [[most, max(cited)], *([who, few] for who, few in zip(some, sorted(cited)[:-1], strict=True))]
    draw.random.shuffle(rows)
    draw.table("data", ("author", "cited"), rows)
    return Job(
        (
            "Ask the author with max cited in {data} for their data, and post the answer in {room}.",
            "Which author in {data} is cited most? Ask them for data, and post the answer in {room}.",
        ),
        ("query {data}", "max cited", "ask {most}", "post {room}"),
        (
            desk("authors", rows),
            desk("most cited", [max(rows, key=lambda row: row[1])]),
            asked(most),
            told(room, answer),
        ),
    )


FIELDS = ("optics", "genetics", "ethics")
TITLES = ("Lattice", "Mosaic", "Nocturne", "Orbit", "Prism", "Quarry", "Ripple", "Spiral", "Threshold")

TEMPLATES = (
    Template("summary", "research", 1, summary),
    Template("papers", "research", 2, papers),
    Template("author", "research", 3, author),
)
