"""An auto-labeler of decisions that have no words says so."""

import pytest

from decisions.labelling.classifier import TooFewLabels, fit


@pytest.mark.parametrize("text", ["", "!!!", "x: 1", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("worded", [0, 1, 49])
def test_texts_without_words_teach_nothing(text, worded):
    texts = ["two words"] * worded + [text] * (100 - worded)
    with pytest.raises(TooFewLabels, match="100 labels, but most of their decisions have no words"):
        fit(texts, ["a", "b"] * 50)
