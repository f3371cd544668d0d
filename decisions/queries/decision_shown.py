"""A decision as pages show it, from prefetched rows: a list of any length costs the same queries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from decisions.agents.chat_actions import CHATTING
from decisions.agents.prompts import as_text
from decisions.editors.editor import Form
from decisions.editors.parts import Part
from decisions.editors.table import case_of, editor_of
from decisions.models import ActionSpaceKind, Decision, Feedback, Label, Reward
from decisions.models.finish_reasons import INCOMPLETE
from decisions.models.verdicts import find_correction, find_verdict, label_key
from decisions.queries.chat_shown import (
    LONG_TEXT,
    ShownCall,
    ShownChat,
    find_rest,
    show_calls,
    show_chat,
    summarise_chat,
)
from decisions.queries.suggestion_shown import ShownSuggestion
from workspaces.templatetags import show

MAX_KEYS = 9
"""Digits 1 to 9 choose an option. With more options than digits, the likeliest come first."""
MAX_DEPTH = 8
MAX_CHILDREN = 200
TONES = {"confirmed": "ok", "corrected": "info", "overridden": "info"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One option: `index` is its place in the decision, `key` the digit that chooses it, or empty."""

    index: int
    key: str
    text: str
    probability: float | None
    chosen: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a state: `text` where it is one, else `children`. `says` and `preview` tell what is folded away."""

    name: str
    text: str
    children: tuple[Node, ...] = ()
    says: str = ""
    preview: str = ""
    open: bool = False

    @property
    def long(self) -> bool:
        return len(self.text) > LONG_TEXT


@dataclass(frozen=True, slots=True)
class Event:
    """Something that came of the decision. `what` and `value` are untrusted text."""

    at: dt.datetime
    what: str
    value: str
    by: str
    more: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class SaidLabel:
    """A label of the decision, and its correction: in one line, and with what it changes."""

    decision: Decision
    label: Label

    @property
    def line(self) -> str:
        corrected = self.label.corrected_action
        return "" if corrected is None else editor_of(self.decision).say(corrected)

    @property
    def calls(self) -> tuple[ShownCall, ...]:
        """The answer's tool calls, with their ids."""
        chats = self.decision.agent_version.action_space in CHATTING and not self.decision.is_erased
        return show_calls(self.decision.action) if chats else ()

    @property
    def parts(self) -> tuple[Part, ...]:
        return show_correction(self.decision, self.label.corrected_action)


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """A decision with what came of it. `verdict` is the one that counts, or empty; `labels` are newest first."""

    decision: Decision
    choices: tuple[Choice, ...]
    labels: tuple[Label, ...]
    feedback: tuple[Feedback, ...]
    verdict: str
    corrected_action: Any
    rewards: tuple[Reward, ...]
    suggestion: ShownSuggestion | None = None
    chat: ShownChat | None = None

    @property
    def title(self) -> str:
        if self.decision.is_erased:
            return f"{self.decision.agent.name}: an erased decision"
        action = self.line
        return f"{self.decision.agent.name} chose {action if len(action) <= 80 else action[:79] + '…'}"

    @property
    def incomplete(self) -> bool:
        """The model would have said more."""
        return self.decision.finish_reason in INCOMPLETE

    @property
    def line(self) -> str:
        """The action in one line."""
        return editor_of(self.decision).say(self.decision.action)

    @property
    def calls(self) -> tuple[ShownCall, ...]:
        """The answer's tool calls, with their ids."""
        chats = self.decision.agent_version.action_space in CHATTING and not self.decision.is_erased
        return show_calls(self.decision.action) if chats else ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The action, where it is more than one of the options."""
        if self.decision.is_erased or _is_choice(self.decision):
            return ()
        return editor_of(self.decision).show(case_of(self.decision), self.decision.action)

    def _correction_line(self, corrected: Any) -> str:
        return "" if corrected is None else f" → {editor_of(self.decision).say(corrected)}"

    @property
    def corrected_line(self) -> str:
        return "" if self.corrected_action is None else editor_of(self.decision).say(self.corrected_action)

    @property
    def corrected_parts(self) -> tuple[Part, ...]:
        """The correction that counts, with what it changes in the action."""
        return () if _is_choice(self.decision) else show_correction(self.decision, self.corrected_action)

    @property
    def form(self) -> Form | None:
        """The form of a correction, with what the agent did; None where the options are the form."""
        if self.decision.is_erased or _is_choice(self.decision):
            return None
        editor, case = editor_of(self.decision), case_of(self.decision)
        return editor.draw(case, editor.enter(case))

    @property
    def form_template(self) -> str:
        return editor_of(self.decision).template

    @property
    def form_noun(self) -> str:
        """What a row of the form is."""
        return editor_of(self.decision).noun

    @property
    def said(self) -> tuple[SaidLabel, ...]:
        return tuple(SaidLabel(self.decision, label) for label in self.labels)

    @property
    def reward(self) -> Reward | None:
        return self.rewards[0] if self.rewards else None

    @property
    def fields(self) -> tuple[Node, ...]:
        """The state's fields, without those that its chat shows; one without a name where it is no object."""
        state = self.decision.state
        if self.chat is not None:
            return tuple(show_value(str(name), value) for name, value in find_rest(state).items())
        if isinstance(state, dict) and state:
            return tuple(show_value(str(name), value) for name, value in state.items())
        return (show_value("", state),)

    @property
    def summary(self) -> str:
        """The state in one line: its fields' values, without their names; of a chat its last question."""
        state = self.decision.state
        if self.chat is not None:
            return summarise_chat(self.chat, state)
        values = list(state.values()) if isinstance(state, dict) and state else [state]
        return " · ".join(as_text(value) for value in values)

    @property
    def few_choices(self) -> bool:
        """Few enough to be offered inside a list's row."""
        return 0 < len(self.choices) <= MAX_KEYS

    @property
    def first_choices(self) -> tuple[Choice, ...]:
        return self.choices[:MAX_KEYS]

    @property
    def more_choices(self) -> tuple[Choice, ...]:
        """Beyond the digits: found by typing."""
        return self.choices[MAX_KEYS:]

    @property
    def age(self) -> str:
        """How long ago, in one unit."""
        seconds = (timezone.now() - self.decision.observed_at).total_seconds()
        for name, size in (("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("min", 60)):
            if seconds >= size:
                return f"{int(seconds // size)} {name}"
        return "now" if seconds > -60 else "ahead"

    @property
    def events(self) -> tuple[Event, ...]:
        """Labels, feedback and rewards, newest first. A label's own feedback is not said twice."""
        labels = {label_key(label) for label in self.labels}
        found = [
            Event(
                label.created_at,
                "verdict",
                label.verdict + self._correction_line(label.corrected_action),
                f"{label.labelled_by}, in bulk" if label.bulk_id else label.labelled_by,
                label.note,
                TONES.get(label.verdict, ""),
            )
            for said in self.said
            for label in [said.label]
        ]
        found += [
            Event(
                entry.observed_at,
                entry.metric,
                as_text(entry.value) + self._correction_line(entry.correction),
                entry.get_source_display(),
                tone=TONES.get(str(entry.value), "") if entry.metric == "verdict" else "",
            )
            for entry in self.feedback
            if entry.idempotency_key not in labels
        ]
        found += [
            Event(
                reward.computed_at,
                "reward",
                "no value" if reward.value is None else show.reward(reward.value),
                f"spec v{reward.spec.number}, version {reward.version}",
                tone="info",
            )
            for reward in self.rewards
        ]
        return tuple(sorted(found, key=lambda event: event.at, reverse=True))


def show_decision(decision: Decision, suggestion: ShownSuggestion | None = None) -> ShownDecision:
    """Reads prefetched labels, feedback and rewards only. Pending labels are left out: reviewers of a queue judge by
    themselves."""
    labels = sorted(
        (label for label in decision.labels.all() if not label.pending), key=lambda label: label.id, reverse=True
    )
    feedback = sorted(decision.feedback.all(), key=lambda entry: entry.id, reverse=True)
    counts = find_verdict(decision)
    verdict = str(counts.value) if counts is not None else ""
    corrected = find_correction(counts, labels)
    rewards = sorted(decision.rewards.all(), key=lambda reward: (reward.spec.number, reward.version), reverse=True)
    return ShownDecision(
        decision,
        _choices(decision, corrected),
        tuple(labels),
        tuple(feedback),
        verdict,
        corrected,
        tuple(rewards),
        suggestion,
        show_chat(decision.state),
    )


def show_correction(decision: Decision, corrected: Any) -> tuple[Part, ...]:
    """What a correction says, with what it changes in the action; nothing where there is none."""
    if corrected is None or decision.is_erased:
        return ()
    return editor_of(decision).show(case_of(decision), corrected, corrected=True)


def _is_choice(decision: Decision) -> bool:
    return decision.agent_version.action_space == ActionSpaceKind.CHOICE


def _choices(decision: Decision, corrected: Any) -> tuple[Choice, ...]:
    if not _is_choice(decision):
        return ()
    known = {
        str(entry.get("action")): entry.get("probability")
        for entry in decision.alternatives or []
        if isinstance(entry, dict)
    }
    numbered = list(enumerate(decision.options or []))
    if len(numbered) > MAX_KEYS:
        numbered.sort(key=lambda pair: -(known.get(str(pair[1])) or 0.0))
    return tuple(
        Choice(
            index=index,
            key=str(place) if place <= MAX_KEYS else "",
            text=str(option),
            probability=known.get(str(option)),
            chosen=option == decision.action,
            right=option == corrected,
        )
        for place, (index, option) in enumerate(numbered, start=1)
    )


def show_value(name: str, value: Any, depth: int = 0) -> Node:
    """A JSON value as a tree to fold: open at the top, closed below. What lies deeper than MAX_DEPTH is text."""
    pairs: Sequence[tuple[str, Any]] = ()
    if depth < MAX_DEPTH and isinstance(value, dict):
        pairs = [(str(key), one) for key, one in value.items()]
    elif depth < MAX_DEPTH and isinstance(value, list):
        pairs = [(str(number), one) for number, one in enumerate(value, start=1)]
    if not pairs:
        return Node(name, as_text(value))
    children = [show_value(key, one, depth + 1) for key, one in pairs[:MAX_CHILDREN]]
    if len(pairs) > MAX_CHILDREN:
        children.append(Node("…", f"{len(pairs) - MAX_CHILDREN:,} more"))
    noun = "field" if isinstance(value, dict) else "entry"
    plural = {"field": "fields", "entry": "entries"}[noun]
    says = f"{len(pairs)} {noun if len(pairs) == 1 else plural}"
    preview = " · ".join(as_text(one) for _, one in pairs[:4])
    return Node(name, "", tuple(children), says, preview[:80], open=depth == 0 and len(pairs) <= 12)
