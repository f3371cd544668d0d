"""Which editor a kind of action has. `decisions.queries.decision_shown` shows actions by it, `decisions.labelling`
checks corrections by it, and `decisions.pages.cards` draws and reads the forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from decisions.agents.actions import Space
from decisions.agents.current import space_of
from decisions.agents.forms import tools_of
from decisions.agents.prompts import read_offered_tools
from decisions.editors.chat import ChatEditor
from decisions.editors.choice import ChoiceEditor
from decisions.editors.editor import Case, Editor
from decisions.editors.findings import FindingsEditor, has_findings
from decisions.editors.ranking import RankingEditor
from decisions.editors.structured import StructuredEditor
from decisions.models import CHATTING, ActionSpaceKind, Decision

Fits = Callable[[Mapping[str, Any]], bool]


def always(schema: Mapping[str, Any]) -> bool:
    return True


CHAT = ChatEditor()
EDITORS: tuple[tuple[str, Fits, Editor], ...] = (
    (ActionSpaceKind.CHOICE, always, ChoiceEditor()),
    (ActionSpaceKind.RANKING, always, RankingEditor()),
    (ActionSpaceKind.STRUCTURED, has_findings, FindingsEditor()),
    (ActionSpaceKind.STRUCTURED, always, StructuredEditor()),
    (ActionSpaceKind.TEXT, always, CHAT),
    (ActionSpaceKind.TOOL_CALLS, always, CHAT),
)
"""Kind of action space, which schemas of an action, and the editor: the first that fits is it."""


def find_editor(space: Space) -> Editor:
    schema = space.action.plain if space.action is not None else {}
    return next(editor for kind, fits, editor in EDITORS if kind == space.kind and fits(schema))


def editor_of(decision: Decision) -> Editor:
    return find_editor(space_of(decision.agent_version))


def case_of(decision: Decision) -> Case:
    state = decision.state if isinstance(decision.state, dict) else {}
    version = decision.agent_version
    chats = version.action_space in CHATTING
    tools = read_offered_tools(version, state) or tools_of(version, decision.options) if chats else ()
    return Case(space_of(version), decision.action, decision.options, state, tools)
