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
            "New colleague: ask {new} who they are, post it in {room} and add them.",
        ),
        ("ask {new}", "post {room}", "add {new} {room}"),
        (asked(new), told(room, intro), member(room, new)),
    )


def late(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    wanted = draw.pick(STATES[:3])
    rows: Rows = [list(row) for row in zip(draw.crowd(7), draw.values(STATES, 7, wanted), strict=True)]
    draw.sheet("file", ("name", "status"), rows)
    found = [row for row in rows if row[1] == wanted]
    names = [[name] for name, _ in found]
    return Job(
        (
            f"Who was {wanted} in {{file}}? List the names, save them as {{out}} and tell {{boss}}.",
            f"List the names of all who were {wanted} in {{file}}; save that as {{out}} and tell {{boss}}.",
        ),
        ("open {file}", f"keep {wanted}", "list name", "save {out}", "tell {boss}"),
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
    days = draw.numbers(5)
    rows: Rows = [[most, max(days)], *([who, few] for who, few in zip(some, sorted(days)[:-1], strict=True))]
    draw.random.shuffle(rows)
    file = draw.sheet("file", ("name", "days"), rows)
    best = max(rows, key=lambda row: row[1])
    return Job(
        (
            "Who has max days in {file}? Tell that person, and share the file with {boss}.",
            "Tell whoever has max days in {file} their number, and share the file with {boss}.",
        ),
        ("open {file}", "max days", "tell {most}", "share {boss}"),
        (
            desk("leave", rows),
            desk("most", [best]),
            told(most, best[1], lacks=[days for _, days in rows]),
            shared(file, boss),
        ),
    )


STATES = ("late", "absent", "early", "present")

TEMPLATES = (
    Template("newcomer", "hr", 1, newcomer),
    Template("late", "hr", 2, late),
    Template("leave", "hr", 3, leave),
)
