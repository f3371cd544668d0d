"""One rendering of a chat: the same token ids where it is served, learnt from, scored, evaluated and exported."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from chat_templates import BEGUN, BLOCKS, COUNTED, GOLDEN, HEADERS, THOUGHTS, TURNS, tokenizer_of
from transformers import Qwen2Config

from models_registry.backends.chat_rows import chat_as_text, reply_as_text
from training.engine.data.long_chats import leave_out_long_chats
from training.engine.data.reading import RunData
from training.engine.export.exporting import make_probes
from training.engine.export.go_template import read_form
from training.engine.models.actions import ActionScorer
from training.engine.models.chats import ChatTemplate, TemplateRefuses, fold_system, number_calls, written_out
from training.engine.models.loading import Loaded
from training.engine.models.prompts import PromptEncoder, find_room
from training.engine.rows.prompt_forms import form_of
from training.engine.rows.types import Labelled, Preference, Prompt, Text, prompt_of, replies_of
from training.engine.serving.artifacts import Artifact
from training.engine.serving.chat import prepare, render_after
from training.engine.serving.chat_requests import READ_CHAT, chat_request_of
from training.engine.serving.constraints import Grammars
from training.engine.serving.pool import LoadedBase

SCHEMA = {"properties": {"copy": {"type": "boolean"}, "order": {"type": "integer"}}, "type": "object"}
TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "Finds an order.", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "send", "parameters": SCHEMA}},
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


MESSAGES = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Where is order 41? <|im_end|>"},
    {"role": "assistant", "content": "", "tool_calls": [call("look", order=41)]},
    {"role": "tool", "content": "It is lost.", "tool_call_id": "call_look"},
    {"role": "assistant", "content": "It is lost."},
    {"role": "user", "content": "Send it again, please."},
]
REPLY = {"role": "assistant", "content": "", "tool_calls": [call("send", copy=True, order=41)]}
TEXTS = [json.dumps([MESSAGES, TOOLS, REPLY, "true", "tool user assistant system model Result of < / > | _ \n"])]
ROW = Text(
    "1",
    chat_as_text(MESSAGES),
    reply_as_text(REPLY),
    source="human",
    messages=tuple(MESSAGES),
    tools=tuple(TOOLS),
    reply=REPLY,
)
IDS: dict[str, tuple[list[int], list[int]]] = json.loads(Path(__file__).with_name("chat_ids.json").read_text())
"""By template: the prompt's tokens and the reply's."""


def turned(node: Any) -> Any:
    """The same with the keys of each object the other way round, as no ledger keeps their order."""
    if isinstance(node, dict):
        return {key: turned(node[key]) for key in reversed(node)}
    return [turned(one) for one in node] if isinstance(node, list) else node


def as_body() -> bytes:
    """The chat as a client sends it: arguments as text, an id of its own for each call."""
    messages = json.loads(json.dumps(MESSAGES).replace("call_look", "call_Xy7"))
    for message in messages:
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = json.dumps(turned(one["function"]["arguments"]))
    return json.dumps({"model": "m", "messages": messages, "tools": turned(TOOLS)}).encode()


def base_of(tokenizer: Any) -> LoadedBase:
    """What the model server keeps of a base, but for its weights."""
    size, ends = len(tokenizer), frozenset([tokenizer.eos_token_id])
    kept, scorer = Artifact("m", "model", None, Path(), {}, 0), ActionScorer(tokenizer, 512)
    return LoadedBase(kept, None, tokenizer, scorer, 4096, ends, size, Grammars(tokenizer, size, ends))


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, tokenizer_of(GOLDEN[request.param], TEXTS)


def test_a_chat_with_tools_has_the_same_tokens_wherever_it_is_read(golden: tuple[str, Any]) -> None:
    name, tokenizer = golden
    prompt, reply = IDS[name]
    encoder, base = PromptEncoder(tokenizer, 512), base_of(tokenizer)
    assert prepare(base, chat_request_of(READ_CHAT.decode(as_body())))[0].prompt_ids == prompt
    assert encoder.encode_rows([ROW]) == ([prompt], [reply])
    chat: Any = {"messages": ROW.messages, "tools": ROW.tools}
    pair = Preference("2", ROW.prompt, "no", ROW.completion, rejected_reply=REPLY, **chat)
    assert base.scorer.encode([prompt_of(pair)]) == [prompt]
    assert base.scorer.encode_replies([prompt_of(pair)], [replies_of(pair)[1]]) == [reply]
    (probe,) = make_probes(tokenizer, RunData(heldout_texts=[ROW]), 512, 9)
    assert (probe.ids, probe.first) == ([*prompt, *reply[:-1]], len(prompt) - 1)
    assert tokenizer.unk_token_id not in {*prompt, *reply}


@pytest.mark.parametrize("name", ["blocks", "headers"])
def test_a_template_that_knows_tools_is_given_them_as_transformers_gives_them(name: str) -> None:
    tokenizer = tokenizer_of(GOLDEN[name], TEXTS)
    tools = json.loads(json.dumps(TOOLS))
    tools[1]["function"] = {"name": "send", "description": "", "parameters": SCHEMA}
    messages = json.loads(json.dumps([*MESSAGES, REPLY]).replace("<|im_end|>", "< | i m _ e n d | >"))
    told = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    assert tokenizer.decode([*IDS[name][0], *IDS[name][1]]) == told.rstrip()


def test_a_prompt_and_a_decision_are_read_as_the_chat_that_they_are(golden: tuple[str, Any]) -> None:
    _, tokenizer = golden
    encoder, base = PromptEncoder(tokenizer, 512), base_of(tokenizer)
    body = {"model": "m", "messages": [MESSAGES[0], MESSAGES[-1]]}
    (row,) = prepare(base, chat_request_of(READ_CHAT.decode(json.dumps(body).encode())))
    plain = Prompt(MESSAGES[-1]["content"], MESSAGES[0]["content"])
    assert encoder.encode([plain, Prompt("", messages=(MESSAGES[0], MESSAGES[-1]))]) == [row.prompt_ids] * 2
    decision = Labelled("1", plain.text, ("look", "send"), "send", system=plain.system)
    (probe,) = make_probes(tokenizer, RunData(heldout=[decision]), 512, 9)
    assert probe.ids == row.prompt_ids and tokenizer(probe.text, add_special_tokens=False)["input_ids"] == probe.ids


@pytest.mark.parametrize("name", ["turns", "plain"])
def test_ollamas_template_writes_the_chat_of_a_template_without_tools(name: str) -> None:
    tokenizer = tokenizer_of(GOLDEN[name], TEXTS)
    template = ChatTemplate(tokenizer)
    told = written_out(number_calls(MESSAGES), TOOLS)
    told = told if template.knows_system else fold_system(told)
    chat = [(one["role"], template.harmless(one["content"])) for one in told]
    assert "<s>" + read_form(tokenizer).render(chat) == template.render(told)


def test_what_the_user_says_is_cut_in_every_turn_where_it_is_served_and_learnt_alike() -> None:
    tokenizer = tokenizer_of(BLOCKS, TEXTS)
    long = [*MESSAGES[:1], {"role": "user", "content": "order " * 50}, *MESSAGES[2:]]
    asked = Prompt("", messages=tuple(long), tools=tuple(TOOLS))
    body = json.loads(as_body()) | {"max_prompt_tokens": 40}
    body["messages"][1]["content"] = long[1]["content"]
    (row,) = prepare(base_of(tokenizer), chat_request_of(READ_CHAT.decode(json.dumps(body).encode())))
    encoder = PromptEncoder(tokenizer, 40)
    assert encoder.encode([asked]) == [row.prompt_ids] and encoder.count_cut([asked, prompt_of(ROW)]) == 1
    said = tokenizer.decode(row.prompt_ids)
    assert "order ... order" in said and "Send it again, please." in said and len(row.prompt_ids) > 40
    (head,) = encoder.heads([asked])
    assert tokenizer.decode(row.prompt_ids[head:]).startswith("Send it again")
    assert encoder.cut([asked]) == ["Send it again, please."]
    bad = {"role": "system", "content": "You help. " * 20}
    assert "leaves fewer than" in encoder.find_faults([Prompt("", messages=(bad, *MESSAGES[1:]))])[0]


WORDS = {"role": "assistant", "content": "It is lost."}


def reply_to(template: str, end: str = "<|im_end|>") -> tuple[str, str]:
    tokenizer = tokenizer_of(template, TEXTS, end)
    asked = Prompt("", messages=({"role": "user", "content": "Where?"}, WORDS, MESSAGES[-1]))
    encoder = PromptEncoder(tokenizer, 64)
    return tokenizer.decode(encoder.encode([asked])[0]), tokenizer.decode(encoder.encode_replies([asked], [WORDS])[0])


def test_words_are_learnt_where_the_model_writes_them_whatever_thoughts_a_template_puts_there() -> None:
    prompt, reply = reply_to(THOUGHTS)
    assert prompt.endswith("<|im_start|>assistant\n") and "think" not in prompt and reply == "It is lost.<|im_end|>"
    prompt, reply = reply_to(BEGUN)
    assert prompt.endswith("<think>\n") and reply == "It is lost.<|im_end|>"


def test_a_template_that_writes_earlier_turns_otherwise_behind_a_reply_is_refused() -> None:
    with pytest.raises(TemplateRefuses, match="writes earlier turns otherwise once a reply follows"):
        reply_to(COUNTED, "</s>")
    begins, ends = "{{ message.role +", "'</s>' }}"
    marked = COUNTED.replace(begins, "{% generation %}" + begins).replace(ends, ends + "{% endgeneration %}")
    with pytest.raises(TemplateRefuses, match="writes earlier turns otherwise"):
        reply_to(marked, "</s>")


@pytest.mark.parametrize(("template", "end"), [(TURNS, "</turn>"), (HEADERS, "<|done|>"), (BLOCKS, "<|im_end|>")])
def test_a_reply_ends_where_its_turn_does(template: str, end: str) -> None:
    tokenizer = tokenizer_of(template, TEXTS)
    encoder = PromptEncoder(tokenizer, 64)
    (reply,) = encoder.encode_replies(["Where?"], [WORDS | {"content": " It is lost. </turn><|done|> "}])
    assert reply[-1] == encoder.template.end == tokenizer.convert_tokens_to_ids(end)
    assert not set(reply[:-1]) & set(tokenizer.all_special_ids)


def test_calls_that_a_template_refuses_are_refused_by_name() -> None:
    encoder = PromptEncoder(tokenizer_of(HEADERS, TEXTS), 512)
    two = {**REPLY, "tool_calls": [*REPLY["tool_calls"], *REPLY["tool_calls"]]}  # type: ignore[misc]
    with pytest.raises(TemplateRefuses, match="the model's chat template refuses: one call"):
        encoder.encode_replies([prompt_of(ROW)], [two])


def test_a_chat_goes_on_behind_its_answers_as_it_is_read_anew(golden: tuple[str, Any]) -> None:
    """Earlier answers stand in a served chat as the model is taught to write them."""
    base = base_of(golden[1])
    template = base.scorer.prompts.template
    request = chat_request_of(READ_CHAT.decode(as_body()))
    begun, tools = MESSAGES[:4], [tool.described() for tool in request.toolbox.tools] if request.toolbox else []
    said, prompt = template.render_reply(begun, tools, MESSAGES[4])
    words = said.partition("It is lost.")[0] + "It is lost."
    assert prompt + words + render_after(base, request, 4) == template.render(MESSAGES, tools)


def test_the_room_for_replies_and_the_form_of_prompts_are_those_of_whole_chats() -> None:
    tokenizer = tokenizer_of(BLOCKS, TEXTS)
    prompt, reply = IDS["blocks"]
    config = Qwen2Config(max_position_embeddings=len(prompt) + len(reply))
    long = msgspec.structs.replace(ROW, messages=(*MESSAGES[:-1], {"role": "user", "content": "order " * 200}))
    assert find_room(tokenizer, config, 512, [ROW]) == find_room(tokenizer, config, 512, [ROW, long]) == len(reply)
    config.max_position_embeddings -= 3
    assert find_room(tokenizer, config, 512, [ROW]) == len(reply) - 3
    plain = Prompt("Send it again, please.", "You help.")
    assert form_of([prompt_of(ROW)]) == form_of([plain]) != form_of([Prompt(plain.text)])


def test_chats_that_have_no_place_in_the_model_are_left_out_and_counted() -> None:
    tokenizer = tokenizer_of(BLOCKS, TEXTS)
    size = sum(map(len, IDS["blocks"]))
    long = msgspec.structs.replace(ROW, messages=(*MESSAGES[:-1], {"role": "user", "content": "order " * 99}))
    pair = Preference("2", "", "no", ROW.completion, rejected_reply=REPLY, messages=ROW.messages, tools=ROW.tools)
    warned: list[str] = []

    def leave_out(positions: int, texts: list[Text]) -> RunData:
        loaded = Loaded(SimpleNamespace(config=Qwen2Config(max_position_embeddings=positions)), tokenizer)
        return leave_out_long_chats(loaded, 512, RunData(texts=texts, preferences=[pair]), warned.append)

    assert leave_out(size, [ROW, long]) == RunData(texts=[ROW], preferences=[pair])
    assert warned == [f"1 of 2 chats are longer than the {size} tokens that the model reads, and were left out"]
    with pytest.raises(ValueError, match=r"^1 of 1 chats are longer than the 300 .*: none is left to learn from"):
        leave_out(300, [ROW])
