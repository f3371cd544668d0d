"""Software development: bugs, releases, handovers."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Template,
    asked,
    commented,
    desk,
    issue,
    labelled,
    shared,
    told,
)


def bug(draw: Draw) -> Job:
    fixer, project = draw.person("fixer"), draw.project("project")
    topic = draw.issue("topic", new=True)
    return Job(
        (
            "New bug {topic} in {project}: label it and assign it to {fixer}.",
            "Label {topic}, a new issue of {project}, as a bug and assign it to {fixer}.",
        ),
        ("new {topic} {project}", "label bug", "assign {fixer}"),
        (issue(topic, project=project), labelled(topic, "bug"), issue(topic, assignee=fixer)),
    )


def release(draw: Draw) -> Job:
    tester, room, project = draw.person("tester"), draw.channel("room"), draw.project("project")
    topic = draw.issue("topic", project=project)
    text = draw.promise()
    notes = draw.text_file("notes", text)
    return Job(
        (
            "Read {notes}, post it in {room}, share it with {tester} and close {topic}.",
            "Post the release notes {notes} in {room}, share them with {tester} and close {topic}.",
        ),
        ("read {notes}", "post {room}", "share {tester}", "find {topic}", "close"),
        (
            desk("notes", [[text]]),
            told(room, text),
            shared(notes, tester),
            issue(topic, state="closed"),
        ),
    )


def handover(draw: Draw) -> Job:
    answer = draw.promise()
    old, new, project = draw.person("old", answer), draw.person("new"), draw.project("project")
    topic = draw.issue("topic", project=project, assignee=old)
    return Job(
        (
            "Find who has {topic}, ask them how it stands, comment with the answer and assign it to {new}.",
            "Assign {topic} to {new}, with a comment: what the present assignee says when you ask.",
        ),
        ("find {topic}", "ask {old}", "comment", "assign {new}"),
        (
            desk("issue", [[topic, "open", old]]),
            asked(old),
            commented(topic, answer),
            issue(topic, assignee=new),
        ),
    )


TEMPLATES = (
    Template("bug", "sde", 1, bug),
    Template("release", "sde", 2, release),
    Template("handover", "sde", 3, handover),
)
