"""Templates that no task to learn from uses: other combinations of the same tools, to measure on."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    asked,
    desk,
    issue,
    labelled,
    saved,
    shared,
    told,
)


def supplies(draw: Draw) -> Job:
    room = draw.channel("room")
    rows: Rows = [list(row) for row in zip(draw.random.sample(GOODS, 4), draw.numbers(4), strict=True)]
    draw.sheet("file", ("item", "price"), rows)
    total = sum(price for _, price in rows)
    return Job(
        (
            "What is the sum of the prices in {file}? Post it in {room}.",
            "Post the sum of the prices in {file} in {room}.",
        ),
        ("open {file}", "sum price", "post {room}"),
        (desk("supplies", rows), desk("sum", [[total]]), told(room, total, lacks=GOODS)),
    )


def birthdays(draw: Draw) -> Job:
    room, out = draw.channel("room"), draw.output("out")
    wanted = draw.pick(SEASONS)
    rows: Rows = [list(row) for row in zip(draw.crowd(6), draw.values(SEASONS, 6, wanted), strict=True)]
    draw.table("data", ("name", "season"), rows)
    kept = [row for row in rows if row[1] == wanted]
    names = [[name] for name, _ in kept]
    return Job(
        (
            f"List the names of all in {{data}} born in {wanted}; save that as {{out}} and post it in {{room}}.",
            f"Who was born in {wanted}, of {{data}}? List the names, save them as {{out}} and post them in {{room}}.",
        ),
        ("query {data}", f"keep {wanted}", "list name", "save {out}", "post {room}"),
        (
            desk("birthdays", rows),
            desk(wanted, kept),
            saved(out, names),
            told(room, *[name for name, _ in kept], lacks=[name for name, _ in rows]),
        ),
    )


def triage(draw: Draw) -> Job:
    fixer, project = draw.person("fixer"), draw.project("project")
    topic = draw.issue("topic", project=project)
    return Job(
        (
            "Label {topic} as a bug, assign it to {fixer} and tell them.",
            "Find {topic}, label it as a bug, assign it to {fixer} and tell them.",
        ),
        ("find {topic}", "label bug", "assign {fixer}", "tell {fixer}"),
        (
            desk("issue", [[topic, "open", ""]]),
            labelled(topic, "bug"),
            issue(topic, assignee=fixer),
            told(fixer, topic),
        ),
    )


def contract(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    wanted = draw.pick(("valid", "expired"))
    states = draw.values(("valid", "expired", "draft"), 6, wanted)
    names = [f"con-{number}" for number in draw.numbers(6, 100, 999)]
    rows: Rows = [list(row) for row in zip(names, states, draw.numbers(6, 40, 99), strict=True)]
    draw.random.choice([row for row in rows if row[1] != wanted])[2] = draw.random.randint(10, 39)
    draw.table("data", ("contract", "status", "fee"), rows)
    kept = [row for row in rows if row[1] == wanted]
    least = min(kept, key=lambda row: row[2])
    return Job(
        (
            f"Save the {wanted} contract of {{data}} with the min fee as {{out}} and share it with {{boss}}.",
            f"Which {wanted} contract in {{data}} has the min fee? Save it as {{out}} and share it with {{boss}}.",
        ),
        ("query {data}", f"keep {wanted}", "min fee", "save {out}", "share {boss}"),
        (
            desk("contracts", rows),
            desk(wanted, kept),
            desk("lowest", [least]),
            saved(out, [least]),
            shared(out, boss),
        ),
    )


def status(draw: Draw) -> Job:
    answer = draw.promise()
    worker, boss, room = draw.person("worker", answer), draw.person("boss"), draw.channel("room")
    return Job(
        (
            "Ask {worker} how far they are, tell {boss}, and post it in {room}.",
            "Tell {boss} what {worker} says when you ask, and post it in {room}.",
        ),
        ("ask {worker}", "tell {boss}", "post {room}"),
        (asked(worker), told(boss, answer), told(room, answer)),
    )


GOODS = ("paper", "toner", "lamps", "chairs", "cables", "desks")
SEASONS = ("spring", "summer", "autumn", "winter")

TEMPLATES = (
    Template("supplies", "admin", 1, supplies),
    Template("birthdays", "hr", 2, birthdays),
    Template("triage", "sde", 2, triage),
    Template("contract", "finance", 3, contract),
    Template("status", "pm", 1, status),
)
