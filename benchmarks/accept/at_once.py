"""`make accept PART=at_once`: one question decided and one feedback sent by many callers at the same moment.

    python -m benchmarks.accept.at_once [--rounds 100] [--callers 8]

On a real instance, whose web workers are processes of their own: in each round every caller sends the same `decide`
under one fresh id, and then the same feedback under one idempotency key. All get one action and one propensity, one row
is stored, and nobody is told of a conflict.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import uuid_utils.compat

from tools.instance import Instance
from tools.killing import OPTIONS, make_agent
from tools.report import Report, log

WORDS = {"finance": "bill tax bank", "travel": "flight hotel train", "health": "pill doctor sleep"}
SETTINGS = {
    "base": {"tiny": {"vocabulary": 400, "hidden": 32, "heads": 4, "key_value_heads": 2, "max_positions": 128}},
    "optimiser": {"learning_rate": 0.005, "epochs": 2, "batch_size": 32},
    "max_prompt_tokens": 16,
    "threads": 1,
}
LONGEST_RUN_SECONDS = 300


class Caller:
    """Asks the instance's API with an admin's key."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/api/v1/{path}", data, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def teach(instance: Instance, caller: Caller) -> None:
    """A small champion for `filer`, whatever it knows."""
    rows = [
        {"id": f"{word}-{number}", "prompt": f"{word} {number}", "options": OPTIONS, "answer": answer}
        for answer, words in WORDS.items()
        for number in range(10)
        for word in words.split()
    ]
    path = instance.var / "labelled.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = instance.manage("import_labelled", str(path), "--agent", "filer", "--name", "words", "--json")
    assert made.returncode == 0, made.stderr
    dataset = json.loads(made.stdout)["dataset"]
    sent = {"agent": "filer", "method": "pretrain", "dataset": dataset, "base_model": "tiny", "settings": SETTINGS}
    status, run = caller.ask("runs", sent)
    assert status == 201, run
    deadline = time.monotonic() + LONGEST_RUN_SECONDS
    while run["produced_version"] is None:
        assert run["state"] not in ("failed", "cancelled"), run["error"]
        assert time.monotonic() < deadline, f"the run is {run['state']}"
        time.sleep(1)
        _, run = caller.ask(f"runs/{run['id']}")


def at_once(count: int, function: Callable[[], Any], pool: ThreadPoolExecutor) -> list[Any]:
    """`count` threads enter the function together; their answers."""
    barrier = Barrier(count)

    def one() -> Any:
        barrier.wait(60)
        return function()

    return [future.result(180) for future in [pool.submit(one) for _ in range(count)]]


def measure(report: Report, instance: Instance, caller: Caller, rounds: int, callers: int) -> None:
    decided: list[int] = []
    fed: list[int] = []
    refused: list[Any] = []
    with ThreadPoolExecutor(callers) as pool:
        for number in range(rounds):
            own = str(uuid_utils.compat.uuid7())
            question = {"id": own, "state": {"text": "flight"}, "unit": f"unit-{number}"}
            answers = at_once(callers, lambda sent=question: caller.ask("agents/filer/decide", sent), pool)
            refused += [answer for status, answer in answers if status != 201]
            told = {(answer.get("action"), answer.get("propensity")) for _, answer in answers}
            row = instance.query("SELECT action, propensity FROM decisions_decision WHERE id = %s", own)
            decided.append(int(told == {tuple(stored) for stored in row}))
            said = {"metric": "verdict", "value": "confirmed", "decision_id": own, "idempotency_key": "click"}
            answers = at_once(callers, lambda sent=said: caller.ask("feedback", sent), pool)
            refused += [answer for status, answer in answers if status != 201]
            kept = [answer["kept"][0] for status, answer in answers if status == 201]
            [[stored]] = instance.query("SELECT count(*) FROM decisions_feedback WHERE decision_id = %s", own)
            one = len({answer["id"] for answer in kept}) == stored == 1
            fed.append(int(one and sum(not answer["duplicate"] for answer in kept) == 1))
    bound = f"{rounds} of {rounds}"
    for what, right in (
        (f"one action and propensity for all {callers} callers, as stored", decided),
        (f"one feedback for all {callers} callers, {callers - 1} of them duplicates", fed),
    ):
        report.add(what, bound=bound, figure=f"{sum(right)} of {rounds}", passed=sum(right) == rounds)
    report.add("answers that are no 201", bound="0", figure=len(refused), passed=not refused)
    for answer in refused[:3]:
        log(str(answer)[:300])


def main() -> int:
    parser = argparse.ArgumentParser(description="One decide and one feedback by many callers at once.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--callers", type=int, default=8)
    chosen = parser.parse_args()
    report = Report("at_once")
    with tempfile.TemporaryDirectory(prefix="reckoner-at-once-") as folder:
        instance = Instance(Path(folder), RECKONER_KEY_REQUESTS_A_MINUTE="0")
        instance.start("--no-demo")
        try:
            caller = Caller(instance.url, make_agent(instance))
            teach(instance, caller)
            measure(report, instance, caller, chosen.rounds, chosen.callers)
        finally:
            instance.stop()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
