"""Classifiers of words and over a sentence encoder: what they learn, how they score, and how they are served."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_world import World, engine, labelled, logged, read_result, write_run

from tests.tiny_encoder import make_encoder
from training.engine.classifiers.options import name_of, parts_of
from training.engine.spec.run_spec import RunSpec

ROWS = 300


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "encoder")


def train(folder: Path, base: dict[str, Any], *, spec: dict[str, Any] | None = None, **data: Any) -> Path:
    told = {"method": "classifier", "base": base, "evaluate": {}} | (spec or {})
    run = write_run(folder, told, **data)
    assert engine(run) == 0
    return run


def lines_of(run: Path, name: str = "predictions.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "attempts/1" / name).read_text().splitlines()]


def test_parts_and_names_of_options() -> None:
    assert parts_of("book_flight") == ("book_flight",)
    structured = '{"folder": "tax", "urgent": true}'
    assert parts_of(structured) == (structured, '{"folder": "tax"}', '{"urgent": true}')
    assert parts_of("{no json") == ("{no json",)
    assert (name_of("book_flight"), name_of("bookFlight"), name_of("___")) == ("book flight", "book flight", "___")
    assert name_of(structured) == "folder: tax, urgent: true"


def make_head(**changes: Any) -> Any:
    from training.engine.classifiers.policy import Classifier, Head
    from training.engine.classifiers.words import learn_words

    words, counted = learn_words(["a tax is due", "a flight is late"])
    weights = {"words": np.asarray(counted.todense(), dtype=np.float32).T * 2}
    told = {"columns": ("tax", "trip"), "weights": weights, "bias": np.array([0.0, 0.5], dtype=np.float32)} | changes
    return Classifier(Head(**told), words)


def test_probabilities_are_over_the_options_offered() -> None:
    from training.engine.rows.types import Prompt

    head = make_head()
    both, alone, reverse = head.log_probabilities(
        [Prompt("a tax is due")] * 3, [("tax", "trip"), ("trip",), ("trip", "tax")]
    )
    assert np.exp(both).sum() == pytest.approx(1, abs=1e-6) and both[0] > both[1]
    assert alone.tolist() == [0.0] and reverse[::-1] == pytest.approx(both, abs=1e-6)


def test_an_option_that_training_never_saw_is_judged_by_its_parts_alone() -> None:
    from training.engine.rows.types import Prompt

    (log_p,) = make_head(bias=np.zeros(2, dtype=np.float32)).log_probabilities(
        [Prompt("nothing known here")], [("tax", "other", "another")]
    )
    assert log_p[1] == pytest.approx(log_p[2])


def test_temperature_divides_the_logits() -> None:
    from training.engine.rows.types import Prompt

    asked = ([Prompt("a tax is due")], [("tax", "trip")])
    (sharp,), (flat,) = make_head().log_probabilities(*asked), make_head(temperature=4.0).log_probabilities(*asked)
    assert sharp[0] - sharp[1] == pytest.approx(4 * (flat[0] - flat[1]), rel=1e-4)


def test_what_is_saved_scores_the_same_and_holds_no_word_of_a_prompt(tmp_path: Path) -> None:
    from training.engine.classifiers.policy import read_classifier
    from training.engine.rows.types import Prompt

    head = make_head()
    head.save(tmp_path)
    asked = ([Prompt("a flight is late")], [("tax", "trip")])
    assert read_classifier(tmp_path, None).log_probabilities(*asked)[0].tolist() == (
        head.log_probabilities(*asked)[0].tolist()
    )
    saved = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"flight" not in saved and b"trip" in saved


def test_a_folder_that_is_no_classifier_is_refused(tmp_path: Path) -> None:
    from training.engine.classifiers.policy import BadClassifier, read_classifier

    make_head().save(tmp_path)
    (tmp_path / "classifier.json").write_text('{"columns": ["tax"]}')
    with pytest.raises(BadClassifier, match="does not fit"):
        read_classifier(tmp_path, None)
    (tmp_path / "classifier.json").write_text("[]")
    with pytest.raises(BadClassifier, match="no classifier"):
        read_classifier(tmp_path, None)


def test_only_the_classifier_method_begins_with_words() -> None:
    with pytest.raises(ValueError, match=r"base\.words: only the classifier"):
        RunSpec.model_validate({"run_id": "r", "method": "sft", "base": {"words": True}, "data": {"train": "rows"}})
    with pytest.raises(ValueError, match="exactly one of"):
        RunSpec.model_validate(
            {"run_id": "r", "method": "classifier", "base": {"words": True, "path": "/a"}, "data": {"train": "rows"}}
        )


@pytest.mark.slow
def untimed(score: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in score.items() if name != "milliseconds"}


class TestTraining:
    def test_words_learn_from_labels_and_more_from_feedback(self, tmp_path: Path, world: World) -> None:
        few = world.taught[:30]
        first = train(tmp_path / "first", {"words": True}, train=few, heldout=world.heldout)
        log = logged(world.stream[:ROWS], world.probabilities[:ROWS], 1)
        spec = {"data": {"rows": "logged"}}
        both = train(tmp_path / "both", {"words": True}, spec=spec, train=log, replay=few, heldout=world.heldout)
        before, after = (read_result(run)["scores"]["trained"]["accuracy"] for run in (first, both))
        assert before > 0.5 and after > before + 0.03
        result = read_result(both)
        assert result["output"] == "classifier" and result["metrics"]["calibrated_on"] >= 20
        # As sure as it is right.
        lines = lines_of(both)
        sure = sum(line["p_action"] for line in lines) / len(lines)
        assert sure == pytest.approx(after, abs=0.12)

    def test_the_same_seed_makes_the_same_weights(self, tmp_path: Path, world: World) -> None:
        runs = [train(tmp_path / name, {"words": True}, train=world.taught, heldout=world.heldout) for name in "ab"]
        one, two = (read_result(run)["weights_sha256"] for run in runs)
        assert one == two

    def test_a_head_over_an_encoder_learns_and_words_beside_it_help(
        self, tmp_path: Path, world: World, encoder: Path
    ) -> None:
        base = {"path": str(encoder)}
        alone = train(tmp_path / "alone", base, train=world.taught, heldout=world.heldout)
        spec = {"classifier": {"words_beside": True}}
        beside = train(tmp_path / "beside", base, spec=spec, train=world.taught, heldout=world.heldout)
        reached = [read_result(run)["scores"]["trained"]["accuracy"] for run in (alone, beside)]
        assert reached[0] > 0.22 and reached[1] > 0.5  # of a random encoder; a sixth would be chance
        # A random encoder knows nothing of names, and neither does the run call it a policy.
        assert "base" not in read_result(alone)["scores"]

    def test_a_second_run_is_compared_with_the_first(self, tmp_path: Path, world: World, encoder: Path) -> None:
        few = world.taught[:60]
        first = train(tmp_path / "first", {"path": str(encoder)}, train=few, heldout=world.heldout)
        base = {"path": str(encoder), "adapter": str(first / "attempts/1/classifier")}
        second = train(tmp_path / "second", base, train=world.taught, heldout=world.heldout)
        scores = read_result(second)["scores"]
        assert untimed(scores["base"]) == untimed(read_result(first)["scores"]["trained"])
        # Also a language model may be what words are compared with.
        over = train(tmp_path / "over", {"path": str(world.base)}, train=world.taught, heldout=world.heldout)
        assert 0.35 < read_result(over)["scores"]["base"]["accuracy"] < 0.85
        again = write_run(
            tmp_path / "again", {"method": "evaluate", "base": base, "evaluate": {}}, heldout=world.heldout
        )
        assert engine(again) == 0
        assert untimed(read_result(again)["scores"]["base"]) == untimed(scores["base"])

    @pytest.mark.slow
    def test_fields_of_structured_actions_are_learnt_together(self, tmp_path: Path) -> None:
        """A combination that three rows of training had is known by its fields."""
        rows = [row | {"prompt": f"{row['prompt']} {'now' if place % 2 else 'later'}"}
                for place, row in enumerate(labelled(400, 5))]  # fmt: skip

        def with_urgency(row: dict[str, Any]) -> dict[str, Any]:
            wanted = json.dumps({"folder": row["answer"], "urgent": row["prompt"].endswith("now")}, sort_keys=True)
            options = [json.dumps({"folder": name, "urgent": urgent}, sort_keys=True)
                       for name in row["options"] for urgent in (False, True)]  # fmt: skip
            return row | {"answer": wanted, "options": options}

        whole = [with_urgency(row) for row in rows]
        rare = [row for row in whole if json.loads(row["answer"]) == {"folder": "travel", "urgent": True}]
        seen = [row for row in whole if row not in rare[3:]]
        run = train(tmp_path / "run", {"words": True}, train=seen, heldout=rare[3:])
        assert len(rare) > 15
        assert read_result(run)["scores"]["trained"]["accuracy"] > 0.5

    def test_what_a_classifier_cannot_do_is_refused(self, tmp_path: Path, world: World, capsys: Any) -> None:
        many = [
            {"id": str(place), "prompt": "note", "options": [f"{place}a", f"{place}b"], "answer": f"{place}a"}
            for place in range(2100)
        ]
        run = write_run(tmp_path / "many", {"method": "classifier", "base": {"words": True}}, train=many)
        assert engine(run) == 2
        assert "at most 4096" in capsys.readouterr().err
        texts = [{"id": "t", "prompt": "note", "completion": "an answer"}]
        spec = {"method": "classifier", "base": {"words": True}, "data": {"rows": "text"}}
        assert engine(write_run(tmp_path / "texts", spec, train=texts)) == 2
        assert "cannot learn from text rows" in capsys.readouterr().err


@pytest.mark.slow
class TestServing:
    def test_the_server_gives_the_probabilities_of_the_evaluation(
        self, tmp_path: Path, world: World, encoder: Path
    ) -> None:
        from server_world import Process, put

        folders = {}
        for name, base in (("words", {"words": True}), ("encoder", {"path": str(encoder)})):
            folders[name] = train(tmp_path / name, base, train=world.taught, heldout=world.heldout[:20])
        root = tmp_path / "store"
        words = put(root, folders["words"] / "attempts/1/classifier", "classifier")
        below = put(root, encoder, "encoder")
        over = put(root, folders["encoder"] / "attempts/1/classifier", "classifier", base=below)
        lost = put(root, folders["encoder"] / "attempts/1/classifier", "classifier", base="0" * 64)
        server = Process(root)
        try:
            for name, digest in (("words", words), ("encoder", over)):
                wanted = {line["id"]: line["p"] for line in lines_of(folders[name])}
                rows = world.heldout[:20]
                items = [{"model": digest, "prompt": row["prompt"], "options": row["options"]} for row in rows]
                told = server.probabilities(*items)
                assert all(p == pytest.approx(wanted[row["id"]], abs=1e-5) for p, row in zip(told, rows, strict=True))
                assert all(math.fsum(p) == pytest.approx(1) for p in told)
            # One that lacks its encoder takes none of its neighbours along.
            mixed = server.score(
                {"model": lost, "prompt": "a", "options": ["x", "y"]},
                {"model": words, "prompt": "a", "options": ["x", "y"]},
            ).json()["results"]
            assert mixed[0]["error"]["code"] == "model_not_found" and "probabilities" in mixed[1]
            refused = server.chat(words, "hello")
            assert refused.status_code == 400 and "classifier" in refused.json()["error"]["message"]
        finally:
            server.stop()
