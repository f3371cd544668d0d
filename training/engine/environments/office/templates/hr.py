"""Human resources: who is late, who is new, who has leave left."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    asked,
    desk,
    member,
    saved,
    shared,
    told,
)


def newcomer(draw: Draw) -> Job:
    intro = draw.promise()
    new, room = draw.person("new", intro), draw.channel("room")
    return Job(
        (
            "Ask {new} for an introduction, post it in {room} and add them there.",
            "{new} is new: get an introduction from them, post it in {room} and make them a member.",
        ),
        ("ask {new}", "post {room}", "add {new} {room}"),
        (asked(new), told(room, intro), member(room, new)),
    )


def late(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    wanted = draw.pick(STATES[:3])

    def make() -> Rows:
        return [list(row) for row in zip(draw.crowd(7), draw.values(STATES, 7, wanted), strict=True)]

    rows = draw.sheet("file", ("name", "status"), make)
    found = [row for row in rows if row[1] == wanted]
    names = [[name] for name, _ in found]
    return Job(
        (
            f"Who was {wanted} in {{file}}? Save the names as {{out}} and tell {{boss}}.",
            f"Names of all who were {wanted} according to {{file}}: into {{out}}, and to {{boss}}.",
        ),
        ("open {file}", f"keep {wanted}", "list name", "save {out}", "send {boss}"),
        (
            desk("attendance", rows),
            desk(wanted, found),
            saved(out, names),
            told(boss, *[name for name, _ in found], lacks=[name for name, _ in rows]),
        ),
    )


def leave(draw: Draw) -> Job:
    boss, most = draw.person("boss"), draw.person("most")
    some = draw.crowd(4)
    draw.bystander(some[0])

    def make() -> Rows:
        days = draw.numbers(5)
        rows = [[most, max(days)], *([who, few] for who, few in zip(some, sorted(days)[:-1], strict=True))]
        draw.random.shuffle(rows)
        return rows

    rows = draw.sheet("file", ("name", "days"), make)
    best = max(rows, key=lambda row: row[1])
    return Job(
        (
            "Who has most days of leave in {file}? Tell that person the number, and share {file} with {boss}.",
            "Share {file} with {boss}, and tell whoever has most days left in it how many.",
        ),
        ("open {file}", "max days", "send {most}", "share {boss}"),
        (
            desk("leave", rows),
            desk("most", [best]),
            told(most, best[1], lacks=[days for _, days in rows]),
            shared(draw.roles["file"], boss),
        ),
    )


STATES = ("late", "absent", "early", "present")

TEMPLATES = (
    Template("newcomer", "hr", 1, newcomer),
    Template("late", "hr", 2, late),
    Template("leave", "hr", 3, leave),
)
