"""The office's issue tracker."""

from __future__ import annotations

from training.engine.environments.office.sheets import describe
from training.engine.environments.office.tables import ToolError, table
from training.engine.environments.office.world import Issue, World

STATES = ("open", "closed")
MOST = 200
"""Issues, and labels or comments of one."""
LONGEST = 2000
"""Characters of a title or a comment."""


def list_issues(world: World, project: str) -> str:
    """Of a project, onto the desk: issue, state, assignee."""
    _project(world, project)
    rows = [(one.title, one.state, one.assignee) for one in world.issues.values() if one.project == project]
    return describe(world.lay(table(("issue", "state", "assignee"), rows)))


def find_issue(world: World, issue: str) -> str:
    """Its state and who works on it, onto the desk; it becomes the issue at hand."""
    found = _issue(world, issue)
    world.issue = issue
    return describe(world.lay(table(("issue", "state", "assignee"), [(issue, found.state, found.assignee)])))


def create_issue(world: World, issue: str, project: str) -> str:
    """It becomes the issue at hand."""
    _project(world, project)
    if world.open_to_me(issue) in world.issues:
        raise ToolError(f"{issue} is there already")
    if not issue or len(issue) > LONGEST or len(world.issues) >= MOST:
        raise ToolError("no more issues, or a title that is empty or too long")
    world.issues[issue] = Issue(issue, project)
    world.issue = issue
    return "created"


def assign_issue(world: World, issue: str, person: str) -> str:
    found = _issue(world, issue)
    found.assignee = world.person(person)
    return "assigned"


def set_issue_state(world: World, issue: str, state: str) -> str:
    _issue(world, issue).state = state
    return state


def label_issue(world: World, issue: str, label: str) -> str:
    labels = _issue(world, issue).labels
    if label not in labels:
        _append(labels, label)
    return "labelled"


def comment_issue(world: World, issue: str, text: str | None = None) -> str:
    """Without a text it says what lies on the desk."""
    comments = _issue(world, issue).comments
    _append(comments, world.on_desk.as_text()[:LONGEST] if text is None else text)
    return "commented"


def _append(texts: list[str], text: str) -> None:
    if len(texts) >= MOST or len(text) > LONGEST:
        raise ToolError("too many, or too long")
    texts.append(text)


def _issue(world: World, issue: str) -> Issue:
    if not issue:
        raise ToolError("no issue at hand")
    if world.open_to_me(issue) not in world.issues:
        raise ToolError(f"no issue {issue}")
    return world.issues[issue]


def _project(world: World, project: str) -> None:
    if world.open_to_me(project) not in world.projects:
        raise ToolError(f"no project {project}")
