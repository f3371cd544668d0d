"""A chat as a base's own template writes it: the one rendering that serving, training, scoring, evaluation and exports
read.

Messages and tools have the form of rows (models_registry.backends.chat_rows). Where the template takes tools it shows
them, calls and results in its own way. Elsewhere they stand in the system message, with INSTRUCTION, and calls and
results become plain text. A system prompt precedes the user's turn where the template has no role for it. Keys of
parameters and arguments are written in alphabetical order, and calls are numbered: a ledger keeps neither the order of
keys nor ids that mean anything, and a model must read what it has learnt from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from training.engine.rows.calls import OPENING

Message = Mapping[str, Any]
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | capitalize + ':\\n' + message['content'] "
    "+ (eos_token if message['role'] == 'assistant' else '') + '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:\\n' }}{% endif %}"
)
"""For a base without a chat template: roles as words, for it knows no tokens for them. A system prompt is `System:` and
stands in front."""
INSTRUCTION = (
    'You may call tools. To call one or more, answer with nothing but a JSON list such as\n[{"name": "…", "arguments": '
    "{…}}]\nwith the name of a tool and arguments that fit its parameters, a JSON schema. "
    "The tools, each on a line of its own:\n"
)
MARK = "reckoner7answer7stands7here"
"""Stands for an answer while its place in a rendered chat is sought. No tokenizer has a control token in it."""
MARKS_ANSWERS = re.compile(r"\{%-?\s*generation\s*-?%\}")


class TemplateRefuses(ValueError):
    """The chat template refuses the messages, or writes a reply where it cannot be found."""


def plain_template(tokenizer: Any) -> str:
    """PLAIN_TEMPLATE, after the beginning-of-sequence token where the tokenizer itself puts one."""
    begins = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    return "{{ bos_token }}" + PLAIN_TEMPLATE if begins else PLAIN_TEMPLATE


@dataclass(frozen=True, slots=True)
class _Known:
    """What a template does. `before` is what it writes between the beginning of an answer and its words, `after` what
    it writes behind them, `end` the token that ends an answer."""

    template: str
    system: bool
    tools: bool
    before: str
    after: str
    end: int


class ChatTemplate:
    """Renders chats for one tokenizer. Control tokens that are spelled out in any of the texts are broken up: a text
    cannot end its own turn. Everything raises TemplateRefuses where the template does."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        control = {token: text for token, text in tokenizer.added_tokens_decoder.items() if text.special}
        self._control_ids = frozenset(control)
        texts = sorted({text.content for text in control.values()}, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, texts))) if texts else None
        self._read: _Known | None = None

    def harmless(self, text: str) -> str:
        """The text with control tokens that it spells out broken up."""
        return text if self._control is None else self._control.sub(lambda found: " ".join(found[0]), text)

    @property
    def knows_system(self) -> bool:
        """Whether the template has a role for system prompts; else they stand in front of the user's text."""
        return self._known.system

    @property
    def knows_tools(self) -> bool:
        """Whether the template shows tools and calls; else they are written out as text."""
        return self._known.tools

    @property
    def end(self) -> int:
        """The token that ends an answer: the first control token that the template writes behind one, or the end of
        sequence."""
        return self._known.end

    @property
    def calls_in_blocks(self) -> bool:
        """Whether the template writes calls as `<tool_call>` blocks."""
        return self.knows_tools and OPENING in self._known.template

    def render(self, messages: Sequence[Message], tools: Sequence[Message] = (), *, begins: bool = True) -> str:
        """The chat as text; `begins`: up to where the answer begins."""
        read, shown = self._as_read(messages, tools)
        return self._apply(read, shown, begins=begins)

    def render_reply(self, messages: Sequence[Message], tools: Sequence[Message], reply: Message) -> tuple[str, str]:
        """What the template writes of the assistant's reply behind `render(messages, tools)`, up to the end of its
        turn; and the chat up to where that begins.

        That is what follows where the chat alone is the beginning of the chat with the reply; an empty thought, which
        some templates put before the words of a last answer and take out of earlier ones, is no part of it. Elsewhere
        it is what the template marks as generated, or what stands where another answer would. Raises TemplateRefuses
        where the template writes earlier turns otherwise once a reply follows: nobody would be asked so.
        """
        prompt = self.render(messages, tools)
        read, shown = self._as_read([*messages, reply], tools)
        whole, spans = self._apply_marked(read, shown)
        if whole.startswith(prompt):
            begin = len(prompt) + (len(self._known.before) if whole.startswith(prompt + self._known.before) else 0)
        elif len(spans) > (earlier := len(self._apply_marked(*self._as_read(messages, tools))[1])):
            begin = spans[earlier][0]
        else:
            begin = self._find_place(messages, tools, prompt, whole)
        if not whole.startswith(prompt) and not prompt.startswith(whole[:begin]):
            raise TemplateRefuses("the model's chat template writes earlier turns otherwise once a reply follows them")
        end = spans[-1][1] if spans and spans[-1][1] > begin else len(whole)
        return whole[begin:end], prompt

    def end_reply(self, ids: Sequence[int]) -> list[int] | None:
        """The tokens of what `render_reply` gave, up to the control token that ends it; None where none does."""
        for place in range(len(ids) - 1, -1, -1):
            if ids[place] in self._control_ids:
                return list(ids[: place + 1])
            if str(self.tokenizer.decode([ids[place]])).strip():
                break
        return None

    def without_ending(self, said: str) -> str:
        """What `render_reply` gave, without what the template writes behind every answer."""
        return said.removesuffix(self._known.after)

    def render_after(self, messages: Sequence[Message], tools: Sequence[Message], answer: int) -> str:
        """What the template writes behind the text of message `answer`, an earlier answer of the model's, up to where
        the next one begins: the end of its turn, and the messages since."""
        read, shown = self._as_read(messages, tools)
        place = len(self._as_read(messages[: answer + 1], tools)[0]) - 1
        # The answer's own text, calls included, stands in the transcript already.
        marked = [*read[:place], {"role": "assistant", "content": MARK}, *read[place + 1 :]]
        rendered = self._apply(marked, shown)
        if rendered.count(MARK) != 1:
            raise TemplateRefuses("the model's chat template does not show its answers")
        return rendered.partition(MARK)[2]

    def _find_place(self, messages: Sequence[Message], tools: Sequence[Message], prompt: str, whole: str) -> int:
        """Where another answer would begin in the chat with the reply."""
        other = self.render([*messages, {"role": "assistant", "content": MARK}], tools, begins=False)
        before = other.partition(MARK)[0]
        if not (prompt.startswith(before) and whole.startswith(before)):
            raise TemplateRefuses("the model's chat template writes earlier turns otherwise once a reply follows them")
        return len(before)

    def _as_read(self, messages: Sequence[Message], tools: Sequence[Message]) -> tuple[list[Message], list[Any] | None]:
        """Messages and tools as the template is given them."""
        read, shown = number_calls(messages), [describe_tool(tool) for tool in tools]
        if not self.knows_tools:
            read, shown = written_out(read, shown), []
        return read if self.knows_system else fold_system(read), shown or None

    def _apply(self, messages: Sequence[Message], tools: list[Any] | None, *, begins: bool = True) -> str:
        try:
            rendered: str = self.tokenizer.apply_chat_template(
                in_all_texts(messages, self.harmless),
                tools=in_all_texts(tools, self.harmless),
                add_generation_prompt=begins,
                tokenize=False,
            )
        except Exception as error:
            # Templates are programs of the model's authors, and refuse by raising whatever they like.
            raise TemplateRefuses(f"the model's chat template refuses: {str(error)[:200]}") from error
        return rendered

    def _apply_marked(self, messages: Sequence[Message], tools: list[Any] | None) -> tuple[str, list[tuple[int, int]]]:
        """Without the beginning of another answer; and where the template says that text is generated, if it does."""
        template = self.tokenizer.get_chat_template(tools=tools)
        if MARKS_ANSWERS.search(template) is None:
            return self._apply(messages, tools, begins=False), []
        try:
            found: Any = render_jinja_template(
                [in_all_texts(messages, self.harmless)],
                tools=in_all_texts(tools, self.harmless),
                chat_template=template,
                return_assistant_tokens_mask=True,
                **self.tokenizer.special_tokens_map,
            )
        except Exception as error:
            raise TemplateRefuses(f"the model's chat template refuses: {str(error)[:200]}") from error
        (rendered,), (spans,) = found
        return rendered, [(begin, end) for begin, end in spans]

    @property
    def _known(self) -> _Known:
        """Read anew where the tokenizer got another template."""
        template = str(self.tokenizer.chat_template)
        if self._read is None or self._read.template != template:
            self._read = self._probe(template)
        return self._read

    def _probe(self, template: str) -> _Known:
        asked = {"role": "user", "content": "a"}
        before = after = ""
        try:
            written = self._apply([asked, {"role": "assistant", "content": MARK}], None, begins=False)
            told, _, after = written.partition(MARK)
            prompt = self._apply([asked], None)
            before = told.removeprefix(prompt) if told.startswith(prompt) else ""
        except TemplateRefuses:
            pass  # it refuses every chat with an answer in it, and says so where one is asked for
        ids = self.tokenizer(after, add_special_tokens=False)["input_ids"]
        end = next((token for token in ids if token in self._control_ids), int(self.tokenizer.eos_token_id))
        return _Known(template, self._shows_system(asked), self._shows_tools(asked), before, after, end)

    def _shows_system(self, asked: Message) -> bool:
        """Gemma 2's template refuses a system message, and others leave it out."""
        try:
            return "0 system" in self._apply([{"role": "system", "content": "0 system"}, asked], None)
        except TemplateRefuses:
            return False

    def _shows_tools(self, asked: Message) -> bool:
        tool = describe_tool({"function": {"name": "tool7probe"}})
        if not takes_tools(self.tokenizer.get_chat_template(tools=[tool])):
            return False
        said = {"role": "assistant", "content": ""}
        call = {"id": "call00000", "type": "function", "function": {"name": "tool7probe", "arguments": {}}}
        try:
            silent = self._apply([asked, said], [tool], begins=False)
            return self._apply([asked, {**said, "tool_calls": [call]}], [tool], begins=False) != silent
        except TemplateRefuses:
            return True


def find_ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """What ends an answer: the end of the template's turns, that of sequences, and what the model's settings add."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ends = configured if isinstance(configured, list) else [configured]
    known = [*ends, tokenizer.eos_token_id, ChatTemplate(tokenizer).end]
    return frozenset(token for token in known if token is not None)


def takes_tools(template: str) -> bool:
    """Whether a chat template reads the variable `tools`."""
    return re.search(r"\{[%{][^%}]*\btools\b", template) is not None


def describe_tool(tool: Message) -> dict[str, Any]:
    """OpenAI's shape, which chat templates read, with every field in its place."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    described = {"name": function["name"], "description": function.get("description") or ""}
    return {"type": "function", "function": described | {"parameters": _in_order(parameters)}}


def number_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages, their calls numbered in the order in which they were made. Nine characters, as some templates
    demand; without keys that hold nothing."""
    numbers: dict[str, str] = {}
    count = 0
    read: list[Message] = []
    for message in messages:
        plain: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
        if calls := message.get("tool_calls"):
            plain["tool_calls"] = []
            for call in calls:
                number, count = f"call{count:05d}", count + 1
                if call.get("id"):
                    numbers[call["id"]] = number
                function = call["function"]
                written = {"name": function["name"], "arguments": _in_order(function["arguments"])}
                plain["tool_calls"].append({"id": number, "type": "function", "function": written})
        if (answered := message.get("tool_call_id")) is not None:
            plain["tool_call_id"] = numbers.get(answered, answered)
        read.append(plain)
    return read


def written_out(messages: Sequence[Message], tools: Sequence[Message]) -> list[Message]:
    """Messages for a template that knows no tools: instruction, calls and results as text."""
    plain: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    results = False
    for message in messages:
        calls = message.get("tool_calls") or ()
        if message["role"] == "tool":
            name = names.get(message.get("tool_call_id") or "") or "a tool"
            text = f"Result of {name}: {message['content']}"
            if results:
                plain[-1]["content"] += "\n" + text
            else:
                plain.append({"role": "user", "content": text})
        elif calls:
            names |= {call["id"]: call["function"]["name"] for call in calls if call.get("id")}
            said = [{"name": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in calls]
            text = "\n".join(filter(None, [message["content"], json.dumps(said, ensure_ascii=False)]))
            plain.append({"role": message["role"], "content": text})
        else:
            plain.append({"role": message["role"], "content": message["content"]})
        results = message["role"] == "tool"
    if tools:
        told = INSTRUCTION + "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        if plain and plain[0]["role"] == "system":
            plain[0]["content"] = f"{plain[0]['content']}\n\n{told}"
        else:
            plain.insert(0, {"role": "system", "content": told})
    return list(plain)


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """For a template without a system role: the system messages at the beginning, put in front of the first of the
    user's turns."""
    count = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
    said = "\n\n".join(message["content"] for message in messages[:count] if message["content"])
    rest = list(messages[count:])
    if not said:
        return rest
    if not rest or rest[0]["role"] != "user":
        return [{"role": "user", "content": said}, *rest]
    return [{**rest[0], "content": f"{said}\n\n{rest[0]['content']}"}, *rest[1:]]


def in_all_texts(node: Any, change: Callable[[str], str]) -> Any:
    """The same with every text changed, keys too."""
    if isinstance(node, str):
        return change(node)
    if isinstance(node, Mapping):
        return {change(key): in_all_texts(value, change) for key, value in node.items()}
    return [in_all_texts(value, change) for value in node] if isinstance(node, list | tuple) else node


def _in_order(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _in_order(node[key]) for key in sorted(node)}
    return [_in_order(value) for value in node] if isinstance(node, list | tuple) else node
