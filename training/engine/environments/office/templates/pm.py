"""Project management: who does what, and what is done."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Template,
    asked,
    commented,
    desk,
    issue,
    told,
)


def assign(draw: Draw) -> Job:
    worker, project = draw.person("worker"), draw.project("project")
    topic = draw.issue("topic", project=project)
    return Job(
        (
            "Assign {topic} to {worker} and tell them.",
            "Find {topic}, assign it to {worker} and tell them.",
        ),
        ("find {topic}", "assign {worker}", "tell {worker}"),
        (
            desk("issue", [[topic, "open", ""]]),
            issue(topic, assignee=worker),
            told(worker, topic),
        ),
    )


def close(draw: Draw) -> Job:
    answer = draw.promise()
    worker, project = draw.person("worker", answer), draw.project("project")
    topic = draw.issue("topic", project=project, assignee=worker)
    return Job(
        (
            "Ask {worker} about {topic}, comment with the answer and close it.",
            "Close {topic} with a comment: what {worker} says when you ask.",
        ),
        ("find {topic}", "ask {worker}", "comment", "close"),
        (
            desk("issue", [[topic, "open", worker]]),
            asked(worker),
            commented(topic, answer),
            issue(topic, state="closed"),
        ),
    )


def workload(draw: Draw) -> Job:
    project, busy, room = draw.project("project"), draw.person("busy"), draw.channel("room")
    some = draw.crowd(2)
    draw.bystander(some[0])
    # With the closed ones somebody else has most.
    drawn = [("open", busy)] * 3 + [("open", some[0])] * 2 + [("closed", some[0])] * 2 + [("open", some[1])]
    draw.random.shuffle(drawn)
    topics = [
        draw.issue(f"topic {number}", project=project, state=state, assignee=who)
        for number, (state, who) in enumerate(drawn)
    ]
    draw.words += ["open", "closed"]
    draw.columns += ["issue", "state", "assignee"]
    still = [[topic, *row] for topic, row in zip(topics, drawn, strict=True) if row[0] == "open"]
    return Job(
        (
            "Who has the max count of open issues in {project}? Tell that assignee, and post it in {room}.",
            "Count the open issues of {project} by assignee; tell whoever has the max, and post it in {room}.",
        ),
        ("issues {project}", "keep open", "count assignee", "max count", "tell {busy}", "post {room}"),
        (
            desk("issues", [[topic, *row] for topic, row in zip(topics, drawn, strict=True)]),
            desk("open ones", [list(row) for row in still]),
            desk("most", [[busy, 3]]),
            told(busy, 3, lacks=[2, 4]),
            told(room, busy, 3, lacks=some),
        ),
    )


TEMPLATES = (
    Template("assign", "pm", 1, assign),
    Template("close", "pm", 2, close),
    Template("workload", "pm", 3, workload),
)
