"""Data science: averages, joins, the best of a table."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    desk,
    saved,
    shared,
    told,
)


def mean(draw: Draw) -> Job:
    boss = draw.person("boss")
    wanted = draw.pick(("clicks", "visits"))
    rows: Rows = [list(row) for row in zip(DAYS, draw.numbers(5), draw.numbers(5), strict=True)]
    draw.table("data", ("day", "clicks", "visits"), rows)
    place = 1 if wanted == "clicks" else 2
    total = sum(row[place] for row in rows)
    average = total // 5 if total % 5 == 0 else total / 5
    return Job(
        (
            f"Tell {{boss}} the mean {wanted} in {{data}}.",
            f"What is the mean of {wanted} in {{data}}? Tell {{boss}}.",
        ),
        ("query {data}", f"mean {wanted}", "tell {boss}"),
        (
            desk("data", rows),
            desk("mean", [[average]]),
            told(boss, average, lacks=[day for day, *_ in rows]),
        ),
    )


def merge(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    keys = draw.random.sample(DAYS, 4)

    left: Rows = [[day, visits] for day, visits in zip(keys, draw.numbers(4), strict=True)]
    right: Rows = [[day, sales] for day, sales in zip(keys, draw.numbers(4), strict=True)]
    draw.sheet("left", ("day", "visits"), left)
    draw.sheet("right", ("day", "sales"), right)
    both = [[day, visits, sales] for (day, visits), (_, sales) in zip(left, right, strict=True)]
    return Job(
        (
            "Open {left}, join {right}, save it as {out} and share it with {boss}.",
            "Join {left} with {right}, save both as {out} and share it with {boss}.",
        ),
        ("open {left}", "join {right}", "save {out}", "share {boss}"),
        (desk("left", left), desk("joined", both), saved(out, both), shared(out, boss)),
    )


def top(draw: Draw) -> Job:
    room, out = draw.channel("room"), draw.output("out")
    wanted = draw.pick(REGIONS)
    regions = draw.values(REGIONS, 5, wanted) + [wanted] * 2
    rows: Rows = [list(row) for row in zip(draw.random.sample(SHOPS, 7), regions, draw.numbers(7, 10, 69), strict=True)]
    draw.random.choice([row for row in rows if row[1] != wanted])[2] = draw.random.randint(70, 99)
    draw.table("data", ("shop", "region", "sales"), rows)
    kept = [row for row in rows if row[1] == wanted]
    best = sorted(kept, key=lambda row: -row[2])[:3]
    return Job(
        (
            f"Sort the {wanted} shops of {{data}} by sales, save the first 3 as {{out}} and post them in {{room}}.",
            f"Save the first 3 {wanted} shops of {{data}}, sorted by sales, as {{out}} and post them in {{room}}.",
        ),
        ("query {data}", f"keep {wanted}", "sort sales", "first 3", "save {out}", "post {room}"),
        (
            desk("data", rows),
            desk(wanted, kept),
            desk("sorted", sorted(kept, key=lambda row: -row[2])),
            desk("first 3", best),
            saved(out, best),
            told(room, *[name for name, *_ in best], lacks=[name for name, *_ in rows]),
        ),
    )


DAYS = ("mon", "tue", "wed", "thu", "fri")
REGIONS = ("north", "south", "coast")
SHOPS = ("Abbey", "Bridge", "Castle", "Dock", "Exchange", "Forge", "Gate", "Hill", "Island")

TEMPLATES = (
    Template("mean", "data science", 1, mean),
    Template("merge", "data science", 2, merge),
    Template("top", "data science", 3, top),
)
