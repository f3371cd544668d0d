"""Finance: unpaid invoices, spending, budgets."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    desk,
    saved,
    told,
)


def unpaid(draw: Draw) -> Job:
    boss = draw.person("boss")
    wanted = draw.pick(("unpaid", "disputed"))
    states = draw.values(("unpaid", "disputed", "paid"), 6, wanted)
    rows: Rows = [[f"inv-{number}", state] for number, state in zip(draw.numbers(6, 100, 999), states, strict=True)]
    draw.sheet("file", ("invoice", "status"), rows)
    kept = [row for row in rows if row[1] == wanted]
    return Job(
        (
            f"Tell {{boss}} which invoices in {{file}} are {wanted}.",
            f"Which invoices in {{file}} are {wanted}? Tell {{boss}}.",
        ),
        ("open {file}", f"keep {wanted}", "tell {boss}"),
        (
            desk("invoices", rows),
            desk(wanted, kept),
            told(boss, *[name for name, _ in kept], lacks=[name for name, _ in rows]),
        ),
    )


def spending(draw: Draw) -> Job:
    boss = draw.person("boss")
    wanted = draw.pick(TEAMS)
    rows: Rows = [list(row) for row in zip(draw.values(TEAMS, 7, wanted), draw.numbers(7), strict=True)]
    draw.table("data", ("team", "amount"), rows)
    kept = [row for row in rows if row[1] and row[0] == wanted]
    total = sum(amount for _, amount in kept)
    return Job(
        (
            f"Tell {{boss}} the sum of the amounts of {wanted} in {{data}}.",
            f"What did {wanted} spend in {{data}}? Tell {{boss}} the sum.",
        ),
        ("query {data}", f"keep {wanted}", "sum amount", "tell {boss}"),
        (
            desk("spending", rows),
            desk(wanted, kept),
            desk("sum", [[total]]),
            told(boss, total, lacks=TEAMS),
        ),
    )


def variance(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    budgets = draw.numbers(4, 50, 99)
    spare = draw.numbers(4, 1, 40)
    spent = [budget - left for budget, left in zip(budgets, spare, strict=True)]
    rows: Rows = [list(row) for row in zip(draw.random.sample(TEAMS, 4), budgets, spent, strict=True)]
    draw.sheet("file", ("team", "budget", "actual"), rows)
    with_left = [[*row, row[1] - row[2]] for row in rows]
    best = max(with_left, key=lambda row: row[3])
    return Job(
        (
            "Save {file} with budget less actual as {out}, and tell {boss} the max difference.",
            "Budget less actual in {file}: save it as {out}, and tell {boss} the max difference.",
        ),
        ("open {file}", "less budget actual", "save {out}", "max difference", "tell {boss}"),
        (
            desk("budget", rows),
            saved(out, with_left),
            desk("largest", [best]),
            told(boss, best[0], best[3], lacks=[team for team, *_ in rows]),
        ),
    )


TEAMS = ("sales", "legal", "design", "support")

TEMPLATES = (
    Template("unpaid", "finance", 1, unpaid),
    Template("spending", "finance", 2, spending),
    Template("variance", "finance", 3, variance),
)
