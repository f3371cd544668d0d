"""Quality assurance: what failed, where, and who looks at it."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    commented,
    desk,
    issue,
    saved,
    told,
)


def reopen(draw: Draw) -> Job:
    fixer, project = draw.person("fixer"), draw.project("project")
    topic = draw.issue("topic", project=project, state="closed")
    return Job(
        (
            "Reopen {topic} and assign it to {fixer}.",
            "Find {topic}, reopen it and assign it to {fixer}.",
        ),
        ("find {topic}", "reopen", "assign {fixer}"),
        (
            desk("issue", [[topic, "closed", ""]]),
            issue(topic, state="open"),
            issue(topic, assignee=fixer),
        ),
    )


def failures(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    rows, kept, counts = _runs(draw)
    return Job(
        (
            "Count the failed tests in {file} by module, save that as {out} and tell {boss}.",
            "Save the count of failed tests in {file} by module as {out} and tell {boss}.",
        ),
        ("open {file}", "keep failed", "count module", "save {out}", "tell {boss}"),
        (
            desk("tests", rows),
            desk("failed", kept),
            saved(out, counts),
            told(boss, *[cell for row in counts for cell in row], lacks=["failed"]),
        ),
    )


def worst(draw: Draw) -> Job:
    fixer, project = draw.person("fixer"), draw.project("project")
    topic = draw.issue("topic", project=project)
    rows, kept, counts = _runs(draw)
    most = max(counts, key=lambda row: row[1])
    return Job(
        (
            "Assign {topic} to {fixer}, with a comment: the module of {file} with the max count of failed tests.",
            "Which module in {file} has the max count of failed tests? Comment on {topic}, and assign it to {fixer}.",
        ),
        ("find {topic}", "assign {fixer}", "open {file}", "keep failed", "count module", "max count", "comment"),
        (
            desk("issue", [[topic, "open", ""]]),
            issue(topic, assignee=fixer),
            desk("tests", rows),
            desk("failed", kept),
            desk("most", [most]),
            commented(topic, most[0], lacks=[module for module, _ in counts] + ["failed"]),
        ),
    )


def _runs(draw: Draw) -> tuple[Rows, Rows, Rows]:
    """All tests, the failed ones, and how many failed in each module: one has more failed ones than any other."""
    first, second, third = draw.random.sample(MODULES, 3)
    # With those that passed another module has most.
    drawn = [(first, "failed")] * 3 + [(second, "failed")] + [(second, "passed")] * 3 + [(third, "passed")]
    draw.random.shuffle(drawn)
    rows: Rows = [[f"t{number}", *row] for number, row in zip(draw.numbers(8), drawn, strict=True)]
    draw.words += ["failed", "passed"]
    draw.sheet("file", ("test", "module", "result"), rows)
    kept = [row for row in rows if row[2] == "failed"]
    modules = [row[1] for row in kept]
    return rows, kept, [[module, modules.count(module)] for module in dict.fromkeys(modules)]


MODULES = ("parser", "cache", "router", "mailer")

TEMPLATES = (
    Template("reopen", "qa", 1, reopen),
    Template("failures", "qa", 2, failures),
    Template("worst", "qa", 3, worst),
)
