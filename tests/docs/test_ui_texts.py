"""docs/ui-texts.txt: every text of the product, up to date, and without phrases that nobody says."""

from __future__ import annotations

import re

import pytest

from tools import ui_texts

REFUSED = (
    r"\breckon(?:ed|s|ing)?\b",
    r"\bmend\b",
    r"\bbeside\b",
    r"\bmeanwhile\b",
    r"\banew\b",
    r"\bwhoever\b",
    r"\bfor ever\b",
    r"\btold\b",
    r"\bto judge\b|\bunjudged\b(?!})",  # a field may be called so
    r"how sure|apart on average",
    r"needs a person|moved today|what came of it|what it was worth",
    r"there is no such|nothing fits|narrowed to",
    r"lies (?:outside|above|below)",
    r"would have been right",
    r"\bgoes? on\b",
    r"\bstands? (?:beside|twice)\b",
    r"\b(?:units?|requests?) an arm\b|\bone a line\b|\brequests a minute\b|\breward a unit\b",
    r"\bnot usable\b|cannot \w+ like this",
    r"\bof yours\b",
    r"\bwas not offered\b",
    r"\bapart\b",
    r"\w…$|\w \.\.\.$",
)
"""As regular expressions, in any case. STYLE: the field's plain English, as a colleague says it."""
NOT_READ = ("decisions/agents/kinds/", "decisions/notes_app/examples.py", "training/engine/environments/office/")
"""What models read, and made-up texts in examples."""


@pytest.mark.slow
def test_the_list_of_texts_is_up_to_date() -> None:
    assert ui_texts.PAGE.read_text(encoding="utf-8") == ui_texts.render(), "run python -m tools.ui_texts"


def listed_texts() -> dict[str, list[str]]:
    """The texts of each place as the list has them; that it is up to date is seen by the test above."""
    _, *blocks = ui_texts.PAGE.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    places = [block.split("\n    ") for block in blocks]
    return {place: texts for place, *texts in places}


def test_no_text_says_what_nobody_says() -> None:
    refused = re.compile("|".join(f"(?:{phrase})" for phrase in REFUSED), re.IGNORECASE)
    found = listed_texts()
    assert len(found) > 300
    faults = [
        f"{place}: {text!r} has {phrase[0]!r}"
        for place, texts in found.items()
        if not place.startswith(NOT_READ)
        for text in texts
        if (phrase := refused.search(text)) is not None
    ]
    assert not faults, "\n".join(faults)


CALLED = (
    "Calculate rewards",
    "Calibration",
    "Needs your attention",
    "Activity today",
    "Accuracy by confidence",
    "Minimum units per arm",
    "No difference is shown yet: {…}.",
    "Confirm c",
)


def test_things_are_called_as_the_field_calls_them() -> None:
    everything = ui_texts.PAGE.read_text(encoding="utf-8")
    assert [text for text in CALLED if text not in everything] == []


def test_templates_scripts_and_python_are_read() -> None:
    """Text, attributes, what is handed to parts, conditions; labels and f-strings, but no SQL and no documentation."""
    template = (
        '{% if n %}<p>{{ n.x|f }} <b>rows</b></p>{% else %}<i title="A tip">none yet</i>{% endif %}{% stat "Time" n %}'
    )
    assert list(ui_texts.template_texts(template)) == ["{x} rows", "none yet", "A tip", "Time"]
    module = '"""Doc string."""\nf(label="Epochs", x="one")\nraise E(f"{a.b} is too long")\nq = "SELECT a FROM b"\n'
    assert list(ui_texts.python_texts(module)) == ["Epochs", "{a.b} is too long"]
    assert list(ui_texts.script_texts('notify("The label was not saved"); // no text here')) == [
        "The label was not saved"
    ]
