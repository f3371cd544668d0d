"""The form that creates or changes a labelling queue: what the API takes, with every fault beside its field.

`decisions.labelling.queues` checks and saves it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django import forms
from django.db import transaction
from django.utils.text import slugify

from decisions.answer_ids import read_decision_id
from decisions.labelling.queues import CHANGEABLE, PEOPLE, QueueSetup, add_gold, change_queue, create_queue
from decisions.labelling.subjects import KINDS
from decisions.models import Agent, LabelQueue, QueueStrategy, QueueSubject, SkipPolicy
from decisions.models.labelling import MAX_OVERLAP
from decisions.queries.browse import ENDING_CHOICES, NO_VERDICT, VERDICTS, WINDOWS
from decisions.queries.episode_list import STATES
from models_registry.models import Arm
from workspaces.access.actors import Actor
from workspaces.errors import Conflict, FieldFault, InvalidInput
from workspaces.models import Membership, User
from workspaces.templatetags.show import in_words

FILTERS = tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.filters))
FIXED = ("subject", *FILTERS, "strategy", "overlap")
"""What cannot change once the queue is there."""
MOST_GOLD = 500
LONGEST_SLUG = 63


class QueueForm(forms.Form):
    """Of a new queue, or with `queue` of what may change of one. Names of fields are those of the API."""

    name = forms.CharField(max_length=200)
    subject = forms.ChoiceField(
        required=False, choices=QueueSubject.choices, initial=QueueSubject.DECISION, label="Reviewers label"
    )
    agent = forms.ChoiceField(required=False)
    verdict = forms.ChoiceField(
        required=False,
        choices=[(one, in_words(one).capitalize()) for one in VERDICTS],
        initial=NO_VERDICT,
        help_text="Of decisions. A queue of episodes asks about those without a verdict.",
    )
    version = forms.CharField(
        required=False, max_length=200, label="Model", help_text="Of decisions alone, such as filer:7."
    )
    arm = forms.ChoiceField(
        required=False,
        choices=[("", "Any arm"), *((one, one.capitalize()) for one in Arm.values)],
        help_text="Of decisions alone.",
    )
    finish_reason = forms.ChoiceField(
        required=False,
        label="How the answer ended",
        choices=[("", "Any ending"), *ENDING_CHOICES],
        help_text="Of decisions alone.",
    )
    session = forms.CharField(required=False, max_length=200, help_text="Of episodes alone.")
    state = forms.ChoiceField(
        required=False,
        label="Outcome",
        choices=[("", "Any outcome"), *STATES.items()],
        help_text="Of episodes alone.",
    )
    since = forms.ChoiceField(
        required=False,
        label="Time",
        choices=[("", "Any time"), *((key, text) for key, (text, _) in WINDOWS.items())],
        help_text="Counted back from whenever the queue looks for more.",
    )
    q = forms.CharField(
        required=False,
        max_length=200,
        label="Words",
        help_text="Or the exact ID of a unit, an item or a decision; of episodes the exact ID, name, trace or unit.",
    )
    strategy = forms.ChoiceField(choices=QueueStrategy.choices, initial=QueueStrategy.UNCERTAINTY, label="Order")
    overlap = forms.IntegerField(
        min_value=1, max_value=MAX_OVERLAP, initial=1, label="Reviewers of each", help_text="1 to 5."
    )
    guidelines = forms.CharField(
        required=False, max_length=20_000, widget=forms.Textarea(attrs={"rows": 6, "dir": "auto"})
    )
    skip_policy = forms.ChoiceField(
        choices=SkipPolicy.choices,
        label="What is skipped",
        help_text="What happens to a decision or an episode that a reviewer skips.",
    )
    hold_seconds = forms.IntegerField(
        min_value=1,
        max_value=86_400,
        initial=900,
        label="Seconds to hold a place",
        help_text="After this time without a label, others may get it.",
    )
    reviewers = forms.MultipleChoiceField(
        required=False, help_text="Who may label. Select nobody to let all labellers and admins label."
    )
    adjudicators = forms.MultipleChoiceField(required=False, help_text="Who may resolve disputes. Admins always may.")
    blind = forms.BooleanField(required=False, initial=True, label="Adjudicators do not see who gave which label")
    gold_share = forms.FloatField(
        min_value=0,
        max_value=0.5,
        initial=0.0,
        label="Share of gold items",
        help_text="From 0 to 0.5 of each reviewer's turns.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    gold = forms.CharField(
        required=False,
        label="New gold items",
        help_text="IDs of decisions or episodes that are labelled, or that a person confirmed or corrected through an "
        "app, one per line. Reviewers are compared with these verdicts.",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
    )

    def __init__(self, *given: Any, by: Actor, queue: LabelQueue | None = None, **options: Any) -> None:
        if queue is not None:
            options["initial"] = {name: getattr(queue, name) for name in CHANGEABLE}
            options["initial"] |= {name: [user.email for user in getattr(queue, name).all()] for name in PEOPLE}
        super().__init__(*given, **options)
        self.by, self.queue = by, queue
        for name in FIXED if queue is not None else ():
            del self.fields[name]
        if queue is None:
            agents = Agent.objects.for_workspace(by.workspace).order_by("name").values_list("slug", "name")
            self.fields["agent"].choices = [("", "All agents"), *agents]  # type: ignore[attr-defined]
        for name in PEOPLE:
            people = _list_members(by)
            if queue is not None:  # who left stays selected until an admin takes them out
                people |= {
                    user.email: f"{user} (left)" for user in getattr(queue, name).all() if user.email not in people
                }
            self.fields[name].choices = list(people.items())  # type: ignore[attr-defined]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if self.queue is None and not _slug_of(name):
            raise forms.ValidationError("Use at least one letter or digit.")
        return name

    def clean_gold(self) -> list[uuid.UUID]:
        lines = self.cleaned_data["gold"].split()
        if len(lines) > MOST_GOLD:
            raise forms.ValidationError(f"{len(lines)} IDs are given; at most {MOST_GOLD} fit into one form.")
        try:
            return [read_decision_id(line) for line in lines]
        except ValueError as error:
            raise forms.ValidationError("Enter IDs of decisions or episodes, one per line.") from error

    def clean(self) -> dict[str, Any]:
        subject = self.cleaned_data.get("subject") or QueueSubject.DECISION.value
        for name in FILTERS if self.queue is None else ():
            given = self.cleaned_data.get(name)
            if given and name not in KINDS[subject].filters and given != self.fields[name].initial:
                self.add_error(name, f"Leave this out: {subject}s are not filtered by it.")
        return self.cleaned_data | ({"subject": subject} if self.queue is None else {})

    def save(self) -> LabelQueue | None:
        """Of a valid form: the queue. None where the services refuse it; the form then has their faults, and nothing
        was saved."""
        try:
            return self._save()
        except Conflict as error:
            self.add_error("name", error.message)
        except InvalidInput as error:
            self._add_faults(error.faults)
        return None

    @transaction.atomic
    def _save(self) -> LabelQueue:
        given = dict(self.cleaned_data)
        gold = given.pop("gold")
        if self.queue is not None:
            queue = change_queue(by=self.by, queue=self.queue, **given)
        else:
            filters = {name: given.pop(name) for name in FILTERS}
            given["filters"] = {name: filters[name] for name in KINDS[given["subject"]].filters}
            queue = create_queue(by=self.by, slug=_slug_of(given["name"]), setup=QueueSetup(**given))
        if gold:
            add_gold(by=self.by, queue=queue, subjects=gold)
        return queue

    def _add_faults(self, faults: Sequence[FieldFault]) -> None:
        for fault in faults:
            name = {"decisions": "gold", "episodes": "gold"}.get(fault.field, fault.field.removeprefix("filters."))
            self.add_error(name if name in self.fields else None, fault.says)


def _slug_of(name: str) -> str:
    return slugify(name)[:LONGEST_SLUG].strip("-")


def _list_members(by: Actor) -> dict[str, str]:
    """Names by e-mail address."""
    members = Membership.objects.active().filter(workspace=by.workspace).select_related("user").order_by("user__email")
    people: list[User] = [membership.user for membership in members]
    return {user.email: f"{user}, {user.email}" if str(user) != user.email else user.email for user in people}
