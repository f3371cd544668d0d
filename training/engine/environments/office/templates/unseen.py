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

    def make() -> Rows:
        return [list(row) for row in zip(draw.random.sample(GOODS, 4), draw.numbers(4), strict=True)]

    rows = draw.sheet("file", ("item", "price"), make)
    total = sum(price for _, price in rows)
    return Job(
        (
            "Post the sum of the prices in {file} in {room}.",
            "What do the items of {file} cost together? Post it in {room}.",
        ),
        ("open {file}", "sum price", "post {room}"),
        (desk("supplies", rows), desk("sum", [[total]]), told(room, total, lacks=GOODS)),
    )


def birthdays(draw: Draw) -> Job:
    room, out = draw.channel("room"), draw.output("out")
    wanted = draw.pick(SEASONS)

    def make() -> Rows:
        return [list(row) for row in zip(draw.crowd(6), draw.values(SEASONS, 6, wanted), strict=True)]

    rows = draw.table("data", ("name", "season"), make)
    kept = [row for row in rows if row[1] == wanted]
    names = [[name] for name, _ in kept]
    return Job(
        (
            f"Who of {{data}} has a birthday in {wanted}? Save the names as {{out}} and post them in {{room}}.",
            f"Post the names of all in {{data}} with a birthday in {wanted} in {{room}}, and save them as {{out}}.",
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
            "{topic} is a bug: label it, assign it to {fixer} and tell them.",
            "Tell {fixer} that {topic} is theirs: it is assigned to them, and labelled bug.",
        ),
        ("find {topic}", "label bug", "assign {fixer}", "send {fixer}"),
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

    def make() -> Rows:
        states = draw.values(("valid", "expired", "draft"), 6, wanted)
        names = [f"con-{number}" for number in draw.numbers(6, 100, 999)]
        rows = [list(row) for row in zip(names, states, draw.numbers(6, 40, 99), strict=True)]
        draw.random.choice([row for row in rows if row[1] != wanted])[2] = draw.random.randint(10, 39)
        return rows

    rows = draw.table("data", ("contract", "status", "fee"), make)
    kept = [row for row in rows if row[1] == wanted]
    least = min(kept, key=lambda row: row[2])
    return Job(
        (
            f"Save the {wanted} contract with the lowest fee in {{data}} as {{out}} and share it with {{boss}}.",
            f"{{boss}} may read {{out}}, which has the cheapest {wanted} contract of {{data}}.",
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
            "Ask {worker} how far they are; tell {boss}, and post it in {room}.",
            "{boss} and {room} want to know what {worker} answers when asked.",
        ),
        ("ask {worker}", "send {boss}", "post {room}"),
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
