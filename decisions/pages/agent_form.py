"""The forms that create and change an agent: the fields of an AgentSetup, in readable form.

They read what POST and PATCH of the API take; `decisions.agents.services.check_setup` checks it, and its faults are
shown beside their fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django import forms
from django.utils.text import slugify

from decisions.agents.prompts import OF_CHAT
from decisions.agents.revising import FIELDS
from decisions.agents.services import COMPLETION_TOKENS, PROMPT_TOKENS, AgentSetup
from decisions.models import CHATTING, EXPLORING, ActionSpaceKind, AgentKind
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.json_field import JsonObjectField
from workspaces.http.parsing import check_body

LONGEST_OPTION = 200
LEAST_PROMPT, MOST_PROMPT, MOST_COMPLETION = 4, 131_072, 32_768
OF_TEXT = "{{ text }}"
FIELDS_HELP = (
    "{{ name }} and {{ name.inner }} are fields of the state; a ? after the name marks an optional field. "
    "{{ options }} lists the options. Agents of text and tool calls answer a chat as it is, without the prompt."
)
FURTHER = ("action_space", "max_prompt_tokens", "max_completion_tokens", "action_schema", "state_schema")


def _schema(help_text: str) -> JsonObjectField:
    area = forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "mono"})
    return JsonObjectField(widget=area, help_text=help_text)


class SetupForm(forms.Form):
    """The fields of a set-up."""

    prompt_template = forms.CharField(
        label="Prompt",
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "mono", "dir": "auto"}),
        help_text=FIELDS_HELP,
    )
    system_prompt = forms.CharField(
        label="System prompt",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono", "dir": "auto"}),
        help_text="Instructions that the model reads before the prompt, in serving, training and exports. Optional.",
    )
    options = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "dir": "auto"}),
        help_text="One per line, at least two. Leave empty if each request gives its own.",
    )
    temperature = forms.FloatField(
        help_text="Above 0. Below 1, likely answers are given more often; above 1, less often. A chat may have its own."
    )
    epsilon = forms.FloatField(
        help_text="From 0 to 1. The share of decisions that choose any option with equal probability."
    )
    exploration_budget = forms.FloatField(
        label="Exploration budget",
        required=False,
        help_text="Right decisions of 1,000 that exploration may be expected to give up, such as 20. Leave empty for "
        "no limit.",
    )
    action_space = forms.ChoiceField(choices=ActionSpaceKind.choices)
    max_prompt_tokens = forms.IntegerField(
        label="Prompt tokens, at most",
        required=False,
        min_value=LEAST_PROMPT,
        max_value=MOST_PROMPT,
        help_text=f"Leave empty for no limit for text and tool calls, else {PROMPT_TOKENS}.",
    )
    max_completion_tokens = forms.IntegerField(
        label="Completion tokens, at most",
        required=False,
        min_value=1,
        max_value=MOST_COMPLETION,
        help_text=f"Leave empty for no limit for text and tool calls, else {COMPLETION_TOKENS}.",
    )
    action_schema = _schema("JSON Schema of a structured action. Of text and tool calls: its properties are the tools.")
    state_schema = _schema("JSON Schema that every state must fit. Leave empty to accept any state.")

    def clean_prompt_template(self) -> str:
        return _lines(self.cleaned_data["prompt_template"])

    def clean_system_prompt(self) -> str:
        return _lines(self.cleaned_data["system_prompt"])

    def clean_options(self) -> list[str] | None:
        """One per line, without the space around it; or a JSON list, which holds any text."""
        text = self.cleaned_data["options"]
        if not text:
            return None
        if text.startswith("["):
            found = _json_list(text)
        else:
            found = [line.strip() for line in _lines(text).split("\n") if line.strip()]
        if too_long := next((option for option in found if len(option) > LONGEST_OPTION), None):
            raise forms.ValidationError(
                f"{too_long[:40]}… has {len(too_long)} characters; an option has at most {LONGEST_OPTION}."
            )
        return found

    def read_setup(self, base: AgentSetup) -> AgentSetup:
        """Of a valid form that began with `base`: a prompt whose line ends alone differ is the same."""
        given = {name: self.cleaned_data[name] for name in FIELDS}
        for name in ("prompt_template", "system_prompt"):
            if given[name] == _lines(getattr(base, name)):
                given[name] = getattr(base, name)
        return AgentSetup(**given)

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        """Each beside its field."""
        for fault in faults:
            self.add_error(fault.field if fault.field in self.fields else None, fault.says)

    @property
    def explores(self) -> bool:
        """True where agents of this action space explore by an epsilon."""
        return self["action_space"].value() in EXPLORING

    @property
    def further(self) -> list[forms.BoundField]:
        return [self[name] for name in FURTHER]

    @property
    def further_open(self) -> bool:
        """A fault must not stand in a closed part."""
        return any(self[name].errors for name in FURTHER)


class AgentForm(SetupForm):
    """`base` is the number of the version that was shown, `seen` the digest of the changes that were (digest_of)."""

    base = forms.IntegerField(widget=forms.HiddenInput, min_value=1, max_value=2**31 - 1)
    seen = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)


class NewAgentForm(SetupForm):
    """`kind` is the one that the form began with."""

    prompt_template = forms.CharField(
        label="Prompt",
        required=False,
        strip=False,
        widget=SetupForm.base_fields["prompt_template"].widget,
        help_text=f"{FIELDS_HELP} Leave empty for {OF_CHAT} for text and tool calls, else {OF_TEXT}.",
    )
    kind = forms.ChoiceField(choices=AgentKind.choices, widget=forms.HiddenInput)
    name = forms.CharField(max_length=200, widget=forms.TextInput(attrs={"dir": "auto"}))
    slug = forms.SlugField(
        label="Name in the API",
        required=False,
        max_length=63,
        help_text="Letters, digits, hyphens and underscores. Leave empty to make it from the name.",
    )
    unit = forms.CharField(
        max_length=32, help_text="What an experiment assigns to an arm: item, user, project and the like."
    )

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if not given.get("prompt_template", "{"):
            given["prompt_template"] = OF_CHAT if given.get("action_space") in CHATTING else OF_TEXT
        if "name" in given and "slug" in given and not given["slug"]:
            given["slug"] = slugify(given["name"])[:63]
            if not given["slug"]:
                self.add_error("slug", "No name for the API can be made from this name. Enter one, such as filer.")
        return given


def write_setup(setup: AgentSetup) -> dict[str, Any]:
    """What the form shows of a set-up, and posts for it."""
    return {
        "prompt_template": setup.prompt_template,
        "system_prompt": setup.system_prompt,
        "options": _write_options(setup.options),
        "temperature": setup.temperature,
        "epsilon": setup.epsilon,
        "exploration_budget": "" if setup.exploration_budget is None else setup.exploration_budget,
        "action_space": setup.action_space,
        "max_prompt_tokens": "" if setup.max_prompt_tokens is None else setup.max_prompt_tokens,
        "max_completion_tokens": "" if setup.max_completion_tokens is None else setup.max_completion_tokens,
        "action_schema": _write_json(setup.action_schema),
        "state_schema": _write_json(setup.state_schema),
    }


def digest_of(base: int, setup: AgentSetup) -> str:
    """Names a change of a version: only what was shown is made."""
    content = json.dumps([base, asdict(setup)], sort_keys=True, default=list)
    return hashlib.sha256(content.encode()).hexdigest()


def _write_options(options: Sequence[str] | None) -> str:
    if options is None:
        return ""
    if any(option != option.strip() or "\n" in option or "\r" in option or not option for option in options):
        return json.dumps(list(options), ensure_ascii=False, indent=2)
    text = "\n".join(options)
    return json.dumps(list(options), ensure_ascii=False, indent=2) if text.startswith("[") else text


def _write_json(schema: Mapping[str, Any] | None) -> str:
    return "" if schema is None else json.dumps(schema, ensure_ascii=False, indent=2)


def _json_list(text: str) -> list[str]:
    try:
        check_body(text.encode())
        found = json.loads(text)
    except (InvalidInput, ValueError) as error:
        raise forms.ValidationError("This begins with [ but is no JSON list.") from error
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise forms.ValidationError("Enter a JSON list of texts, or one option per line.")
    return found


def _lines(text: str) -> str:
    """Browsers end the lines of a form with a carriage return, too."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
