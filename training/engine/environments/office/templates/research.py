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
    text = draw.text_file("notes", draw.promise)
    return Job(
        (
            "Post the summary {notes} in {room} and share it with {reader}.",
            "{reader} may read {notes}, and {room} gets its text.",
        ),
        ("read {notes}", "post {room}", "share {reader}"),
        (desk("summary", [[text]]), told(room, text), shared(draw.roles["notes"], reader)),
    )


def papers(draw: Draw) -> Job:
    reader = draw.person("reader")
    wanted = draw.pick(FIELDS)

    def make() -> Rows:
        fields = draw.values(FIELDS, 7, wanted)
        return [list(row) for row in zip(draw.random.sample(TITLES, 7), fields, strict=True)]

    rows = draw.table("data", ("title", "field"), make)
    kept = [row for row in rows if row[1] == wanted]
    return Job(
        (
            f"Send {{reader}} a list of the titles on {wanted} in {{data}}.",
            f"{{reader}} wants to read about {wanted}: list the titles of {{data}} for them.",
        ),
        ("query {data}", f"keep {wanted}", "list title", "send {reader}"),
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

    def make() -> Rows:
        cited = draw.numbers(5)
        rows = [[most, max(cited)], *([who, few] for who, few in zip(some, sorted(cited)[:-1], strict=True))]
        draw.random.shuffle(rows)
        return rows

    rows = draw.table("data", ("author", "cited"), make)
    return Job(
        (
            "Ask the author in {data} who is cited most for their data, and post the answer in {room}.",
            "Post in {room} when the most cited author of {data} has data for us: ask them.",
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
