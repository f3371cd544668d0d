"""Chat templates in Go, made of Jinja's and held against them by the tokenizer itself."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import World

pytestmark = pytest.mark.filterwarnings("error")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}" + CHATML
)
NO_SYSTEM = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}{{ '<turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' }}"
    "{{ message.content + '</turn>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<turn>model\\n' }}{% endif %}"
)
COUNTED = "{% for message in messages %}{{ loop.index ~ '. ' + message.content }}{% endfor %}"


def form_of(world: World, template: str | None, bos: str | None = None) -> Any:
    from training.engine.export.go_template import read_form
    from training.engine.models.loading import load_tokenizer

    tokenizer = load_tokenizer(world.base)
    tokenizer.chat_template = template
    if bos is not None:
        tokenizer.bos_token = bos
    return read_form(tokenizer)


def test_text_around_messages_by_role_becomes_a_range_in_go(world: World) -> None:
    form = form_of(world, CHATML)
    assert form.takes_system and form.head == ""
    assert form.as_go() == (
        "{{ range .Messages }}"
        '{{ if eq .Role "system" }}{{ "<|im_start|>system\\n" }}{{ .Content }}{{ "<|im_end|>\\n" }}'
        '{{ else if eq .Role "user" }}{{ "<|im_start|>user\\n" }}{{ .Content }}{{ "<|im_end|>\\n" }}'
        '{{ else if eq .Role "assistant" }}{{ "<|im_start|>assistant\\n" }}{{ .Content }}{{ "<|im_end|>\\n" }}'
        '{{ end }}{{ end }}{{ "<|im_start|>assistant\\n" }}'
    )


def test_a_default_system_message_stands_where_there_is_none(world: World) -> None:
    form = form_of(world, DEFAULT_SYSTEM)
    assert form.takes_system and "You help." in form.head
    assert form.render([("user", "Hi")]) == (
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert "You help." not in form.render([("system", "Be short."), ("user", "Hi")])
    assert form.as_go().startswith("{{ if not .System }}")


def test_the_beginning_is_left_to_llama_cpp_and_a_role_that_is_refused_is_not_offered(world: World) -> None:
    form = form_of(world, NO_SYSTEM, bos="<s>")
    assert not form.takes_system
    assert form.render([("user", "Hi")]) == "<turn>user\nHi</turn>\n<turn>model\n"


@pytest.mark.parametrize(
    ("template", "says"),
    [(COUNTED, "does more than put text"), ("{{ messages[-1].content }}", "more or less than once"), (None, "no chat")],
)
def test_a_template_that_does_more_is_refused(world: World, template: str | None, says: str) -> None:
    from training.engine.export.go_template import Unlike

    with pytest.raises(Unlike, match=says):
        form_of(world, template)


def test_the_template_of_our_own_models_is_one(world: World) -> None:
    from training.engine.export.go_template import read_form
    from training.engine.models.loading import load_tokenizer

    tokenizer = load_tokenizer(world.base)
    told = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False, add_generation_prompt=True)
    assert read_form(tokenizer).render([("user", "x")]) == told
