"""Regular expressions that backtrack, in every field that takes one, and texts that provoke it.

    python -m benchmarks.patterns [--quick] [--root FOLDER]

An instance of its own, and a backend that answers with what it was asked. `^(a+)+$` stands in the schema of structured
actions (as `pattern`, in `patternProperties` and in `propertyNames`), of states, of an agent's tools, and in the tools
and the format of a single chat; the texts are of 3 letters, which matches at once, then of 27, then of 50,000. Each is
either refused when it is saved, or every request that meets the text is answered within a second (on a busy machine:
twice the seconds of the slowest with 3 letters, where those are more), while others' calls go on. Python's `re` takes
2²⁷ steps for 27 letters, with the lock of the interpreter held. Patterns that no linear engine has must be refused.
`--root`: another checkout, whose instance is measured, with the libraries of this one.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.serving import server_process, start, stub_server
from benchmarks.unread_bodies import legitimate_calls
from tools.instance import ROOT, Instance
from tools.report import Report, log
from tools.steady import ask_in_turns

PATTERN = "^(a+)+$"
NOT_LINEAR = (r"^(?=a)(a+)+$", r"^(a+)\1$", r"^(?<!b)(a+)+$")
FEW_LETTERS, LETTERS, MANY_LETTERS = 3, 27, 50_000
BOUND_SECONDS, GIVE_UP_SECONDS = 1.0, 90.0
CODE = {"type": "string", "pattern": PATTERN}
SCHEMAS: dict[str, dict[str, Any]] = {
    "pattern": {"type": "object", "properties": {"code": CODE}},
    "pattern-properties": {"type": "object", "patternProperties": {PATTERN: {"type": "integer"}}},
    "property-names": {"type": "object", "propertyNames": {"pattern": PATTERN}},
}
REFUSED_ON_SAVING = (400, 422)


class Patterns:
    """Sends what is to provoke, and keeps the seconds and status of each request."""

    def __init__(self, instance: Instance, token: str, origin: str) -> None:
        self.gateway, self.api = instance.services()["GATEWAY_URL"], f"{instance.url}/api/v1"
        self.http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"}, trust_env=False, verify=False, timeout=GIVE_UP_SECONDS
        )
        self.backend = self.post("backends", {"name": "echo", "url": f"{origin}/v1", "timeout_seconds": 60})["id"]
        self.seconds: dict[str, float] = {}
        self.statuses: dict[str, int] = {}

    def post(self, path: str, body: Any) -> Any:
        answer = self.http.post(f"{self.api}/{path}", json=body)
        answer.raise_for_status()
        return answer.json()

    def ask(self, what: str, url: str, body: Any) -> Any:
        """The answer; None where none came, or it is a refusal."""
        began = time.monotonic()
        try:
            answer = self.http.post(url, json=body)
            status, told = answer.status_code, answer.json() if answer.is_success else None
        except (httpx.HTTPError, ValueError):
            status, told = 0, None
        self.seconds[what], self.statuses[what] = time.monotonic() - began, status
        return told

    def save(self, slug: str, model: str = "echo", **fields: Any) -> bool:
        """False where its schema is refused."""
        plain = {"slug": slug, "name": slug, "prompt_template": "{{ input }}", "max_prompt_tokens": 100_000}
        answer = self.http.post(f"{self.api}/agents", json={**plain, **fields})
        if answer.status_code in REFUSED_ON_SAVING:
            log(f"{slug}: refused when it was saved")
            return False
        answer.raise_for_status()
        self.post("remote-versions", {"model": slug, "remote_name": model, "backend": self.backend})
        return True

    def decide_and_record(self, slug: str, state: Any, action: Any) -> None:
        """Sends a text as the action of a recorded decision, and as the input of a model that answers with it."""
        self.ask(f"{slug}, {self.letters} letters, recorded", f"{self.api}/decisions",
                 {"agent": slug, "state": state, "action": action, "policy_name": "outside"})  # fmt: skip
        self.ask(f"{slug}, {self.letters} letters, decided", f"{self.api}/agents/{slug}/decide", {"state": state})

    def chat(self, slug: str, text: str, **more: Any) -> Any:
        body = {"model": slug, "messages": [{"role": "user", "content": text}], **more}
        return self.ask(f"{slug}, {self.letters} letters, a chat", f"{self.gateway}/v1/chat/completions", body)

    def provoke(self, letters: int) -> None:
        """Every field that takes a pattern."""
        self.letters = letters
        text = "a" * letters + "!"
        for slug in SCHEMAS:
            action = {"code": text} if slug == "pattern" else {text: 1}
            if slug in self.saved:
                self.decide_and_record(slug, {"input": json.dumps(action)}, action)
        if "state" in self.saved:
            self.decide_and_record("state", {"input": "x", "code": text}, "x")
            self.ask(f"a list of them, {letters} letters", f"{self.api}/decisions",
                     [{"agent": "state", "state": {"input": "x", "code": text}, "action": "x"}] * 20)  # fmt: skip
        arguments = json.dumps({"code": text})
        if "tools" in self.saved:
            self.decide_and_record("tools", {"input": arguments}, [{"name": "look", "arguments": {"code": text}}])
            self.chat("tools", arguments)
        tool = {"type": "function", "function": {"name": "look", "parameters": SCHEMAS["pattern"]}}
        told = self.chat("caller", arguments, tools=[tool])
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMAS["pattern"]}}
        self.chat("writer", arguments, response_format=form)
        if told is not None:
            correction = [{"name": "look", "arguments": {"code": text}}]
            feedback = {"metric": "verdict", "value": "corrected", "correction": correction, "decision_id": told["id"]}
            self.ask(f"a correction, {letters} letters", f"{self.api}/feedback", feedback)

    def set_up(self) -> None:
        spaces = {slug: {"action_space": "structured", "action_schema": schema} for slug, schema in SCHEMAS.items()}
        spaces["state"] = {"action_space": "text", "state_schema": SCHEMAS["pattern"]}
        spaces["tools"] = {"action_space": "tool_calls", "action_schema": {"properties": {"look": SCHEMAS["pattern"]}}}
        models = {"tools": "call"}
        self.saved = {slug for slug, fields in spaces.items() if self.save(slug, models.get(slug, "echo"), **fields)}
        self.save("caller", "call", action_space="text")
        self.save("writer", action_space="text")


class Provoking:
    """Provokes without a pause, until all is over."""

    def __init__(self, patterns: Patterns, letters: int) -> None:
        self._patterns, self._letters, self._stop = patterns, letters, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Provoking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._patterns.provoke(self._letters)


def measure(report: Report, patterns: Patterns) -> bool:
    """False where a pattern holds a process already with the short text."""
    for _ in range(2):  # the first time loads what is loaded once
        patterns.seconds = {}
        patterns.provoke(FEW_LETTERS)
    harmless = max(patterns.seconds.values())
    bound = max(BOUND_SECONDS, 2 * harmless)
    for letters in (LETTERS, MANY_LETTERS):
        patterns.seconds, patterns.statuses = {}, {}
        patterns.provoke(letters)
        worst = max(patterns.seconds, key=lambda what: patterns.seconds[what])
        slowest = patterns.seconds[worst]
        count = len(patterns.seconds)
        report.add(f"{letters} letters: the slowest of {count} requests, s", bound=f"<= {bound:.2g}",
                   figure=f"{slowest:.2f} ({worst}; with {FEW_LETTERS} letters {harmless:.2f})",
                   passed=slowest <= bound)  # fmt: skip
        met = {what: (patterns.statuses[what], round(took, 2)) for what, took in patterns.seconds.items()}
        log(f"{letters} letters: {met}")
        lost = sorted(what for what, status in patterns.statuses.items() if status in (0, 500))
        report.add(f"{letters} letters: without an answer, or 500", bound="0", figure=f"{len(lost)} {lost[:3]}",
                   passed=not lost)  # fmt: skip
        if slowest > bound:
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four spells of 10 s")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose instance is measured")
    options = parser.parse_args()
    report = Report("patterns")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="reckoner-patterns-"))
        stub, odd = stack.enter_context(stub_server()), stack.enter_context(server_process("benchmarks.odd_server"))
        urls = {"RECKONER_BACKEND_URLS": f"{stub},{odd}"}
        instance, token = start(Path(folder) / "var", stub, root=options.root, **urls)
        stack.callback(instance.stop)
        patterns = Patterns(instance, token, odd)
        patterns.set_up()
        refused = []
        for number, pattern in enumerate(NOT_LINEAR):
            schema = {"properties": {"code": {"type": "string", "pattern": pattern}}}
            refused.append(not patterns.save(f"odd-{number}", action_space="structured", action_schema=schema))
        report.add("patterns that are not linear: refused when saved", bound=f"{len(NOT_LINEAR)}",
                   figure=sum(refused), passed=all(refused))  # fmt: skip
        letters = MANY_LETTERS if measure(report, patterns) else LETTERS
        found = ask_in_turns(
            legitimate_calls(instance, token), lambda: Provoking(patterns, letters),
            spells=4 if options.quick else 8, seconds=10 if options.quick else 20,
        )  # fmt: skip
        found.report_slowest(report, f"patterns and {letters} letters", seconds=BOUND_SECONDS)
    return report.finish(load=os.getloadavg()[0])


if __name__ == "__main__":
    sys.exit(main())
