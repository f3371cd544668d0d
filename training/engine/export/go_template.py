"""A chat template in Go, which is what Ollama runs, made of a tokenizer's template in Jinja.

Only one form is converted: some text before and after each message, by its role, some where the answer begins, and some
in front of a conversation without a system message. It is read off the Jinja template by rendering short conversations.
Then whole conversations have to come out equal; a template that does more is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.engine.models.chats import ChatTemplate, TemplateRefuses

Chat = Sequence[tuple[str, str]]
"""(role, content) of each message."""
SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
CHECKED: Sequence[Chat] = (
    ((USER, "one"),),
    ((USER, "one {{ two }}"), (ASSISTANT, 'a "quoted" line\nand another'), (USER, "three")),
    ((USER, "a"), (ASSISTANT, "b"), (USER, "c"), (ASSISTANT, "d"), (USER, "e")),
)


class Unlike(ValueError):
    """The template does more than this form can say."""


@dataclass(frozen=True, slots=True)
class ChatForm:
    """`around`: by role what stands before and after a message; without `system` the template takes no such message.
    `head` stands in front of a conversation without a system message, `begin` where the answer begins."""

    around: Mapping[str, tuple[str, str]]
    head: str
    begin: str

    @property
    def takes_system(self) -> bool:
        return SYSTEM in self.around

    def render(self, chat: Chat) -> str:
        """As the Go template does, up to where the answer begins."""
        told = "" if chat and chat[0][0] == SYSTEM else self.head
        for role, content in chat:
            before, after = self.around[role]
            told += before + content + after
        return told + self.begin

    def as_go(self) -> str:
        """For Ollama's `template`; every text is a quoted string, so that nothing in it is run."""
        parts = [
            f"{{{{ if not .System }}}}{_quoted(self.head)}{{{{ end }}}}" if self.head else "",
            "{{ range .Messages }}",
        ]
        for number, (role, (before, after)) in enumerate(self.around.items()):
            condition = f'{{{{ {"else if" if number else "if"} eq .Role "{role}" }}}}'
            parts.append(f"{condition}{_quoted(before)}{{{{ .Content }}}}{_quoted(after)}")
        return "".join([*parts, "{{ end }}{{ end }}", _quoted(self.begin)])


def read_form(tokenizer: Any) -> ChatForm:
    """The form of the tokenizer's chat template, without the token that begins a text, which llama.cpp adds itself.
    Raises Unlike."""

    if tokenizer.chat_template is None:
        raise Unlike("the tokenizer has no chat template")
    template = ChatTemplate(tokenizer)

    def render(chat: Chat, begin: bool = True) -> str:
        messages = [{"role": role, "content": content} for role, content in chat]
        return template.render(messages, begins=begin).removeprefix(tokenizer.bos_token or "")

    first, after_user = _split(render([(USER, "<1>")], begin=False), "<1>")
    begin = render([(USER, "<1>")]).removeprefix(f"{first}<1>{after_user}")
    _, turns = _split(render([(USER, "<1>"), (ASSISTANT, "<2>"), (USER, "<3>")], begin=False), "<1>")
    to_answer, rest = _split(turns, "<2>")
    to_user, _ = _split(rest, "<3>")
    before_user = _common_end(first, to_user)
    around = {
        USER: (before_user, after_user),
        ASSISTANT: (to_answer.removeprefix(after_user), to_user.removesuffix(before_user)),
    }
    form = ChatForm(around, first.removesuffix(before_user), begin)
    _check(form, render, CHECKED)
    if not template.knows_system:
        return form
    try:
        before, rest = _split(render([(SYSTEM, "<0>"), (USER, "<1>")], begin=False), "<0>")
        between, _ = _split(rest, "<1>")
        told = ChatForm({SYSTEM: (before, between.removesuffix(before_user)), **around}, form.head, begin)
        _check(told, render, [((SYSTEM, "some rules"), *chat) for chat in CHECKED])
    except (Unlike, TemplateRefuses):
        return form
    return told


def _check(form: ChatForm, render: Any, chats: Sequence[Chat]) -> None:
    for chat in chats:
        if form.render(chat) != render(chat):
            raise Unlike("the chat template does more than put text around each message")


def _split(told: str, at: str) -> tuple[str, str]:
    if told.count(at) != 1:
        raise Unlike("the chat template changes messages, or shows one more or less than once")
    before, _, after = told.partition(at)
    return before, after


def _common_end(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return one[len(one) - length :]


def _quoted(text: str) -> str:
    """A Go action that prints the text. A JSON string without surrogates is one of Go's."""
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if text else ""
