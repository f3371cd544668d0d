"""What templates draw their tasks with: people, files, tables, channels, issues, and what else lies in the office.

A template is a function of a `Draw` that returns a `Job`: the request, the plan that an expert follows, and the goals
that graders check. Requests and plans name things by their roles in braces: `Send {file} to {boss}.`, `tell {boss}`.
Of each kind of thing there is another one that the request does not mean; it is on offer as well.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from training.engine.environments.office.calls import DONE, NAMED
from training.engine.environments.office.templates.names import FIRST, LAST, MONTHS, WORDS

OFFERED = 12
"""Calls on offer at least; there are more where a plan has many steps."""
WRONG_THINGS = 3
"""Calls on offer that are right but for the thing that they name."""

Rows = list[list[Any]]
Goal = dict[str, Any]


class Job(NamedTuple):
    """`requests`: ways to say the same; one is drawn. `plan`: the expert's calls, without the one that ends it."""

    requests: Sequence[str]
    plan: Sequence[str]
    goals: Sequence[Goal]


class Template(NamedTuple):
    """`level`: 1 is easy, 3 is hard."""

    name: str
    domain: str
    level: int
    make: Callable[[Draw], Job]


class Draw:
    """One office in the making."""

    def __init__(self, draw: random.Random) -> None:
        self.random = draw
        self.roles: dict[str, str] = {}
        self.kinds: dict[str, list[str]] = {}
        self.columns: list[str] = []
        self.words: list[str] = []
        self.people: list[str] = []
        self.replies: dict[str, str] = {}
        self.files: dict[str, Any] = {}
        self.tables: dict[str, Any] = {}
        self.channels: dict[str, list[str]] = {}
        self.issues: list[dict[str, Any]] = []
        self.locked: list[str] = []
        self._taken: set[str] = set()

    # Things with roles. Of each kind there is another one, to which the worker has no access.

    def person(self, role: str, reply: str = "") -> str:
        """A colleague; `reply` is what they answer when asked."""
        name = self._name(role, "person", self.crowd(1)[0])
        self.people.append(name)
        if reply:
            self.replies[name] = reply
        return name

    def crowd(self, count: int) -> list[str]:
        """People who are in nobody's role."""
        return [self._fresh(lambda: f"{self.pick(FIRST)} {self.pick(LAST)}") for _ in range(count)]

    def bystander(self, name: str) -> None:
        """A colleague whom nothing is asked of."""
        self.people.append(name)
        self.kinds.setdefault("person", []).append(name)

    def sheet(self, role: str, columns: Sequence[str], rows: Rows) -> str:
        """A spreadsheet."""
        name = self._pair(role, "sheet", lambda: f"{self.word()}.xlsx")
        self.files[name] = self._content(columns, rows)
        return name

    def table(self, role: str, columns: Sequence[str], rows: Rows) -> str:
        """A table of the database."""
        name = self._pair(role, "table", lambda: f"{self.word()}_table")
        self.tables[name] = self._content(columns, rows)
        return name

    def output(self, role: str) -> str:
        """A spreadsheet that is still to be written."""
        return self._pair(role, "output", lambda: f"{self.word()}-list.xlsx")

    def text_file(self, role: str, text: str) -> str:
        name = self._pair(role, "text", lambda: f"{self.word()}-notes.txt")
        self.files[name] = text
        return name

    def channel(self, role: str) -> str:
        name = self._pair(role, "channel", lambda: f"{self.word()}-room")
        self.channels[name] = []
        return name

    def project(self, role: str) -> str:
        return self._pair(role, "project", lambda: f"{self.word()}-api")

    def issue(self, role: str, *, new: bool = False, **fields: Any) -> str:
        """An issue with these fields, `project` among them; a new one is still to be created."""
        name = self._pair(role, "issue", lambda: f"{self.word()}-{self.pick(('crash', 'login', 'search', 'export'))}")
        if not new:
            self.issues.append({"title": name, **fields})
        return name

    # Words and numbers.

    def pick(self, choices: Sequence[str]) -> str:
        return self.random.choice(choices)

    def word(self) -> str:
        return self.pick(WORDS)

    def numbers(self, count: int, low: int = 10, high: int = 99) -> list[int]:
        """Whole numbers, all different."""
        return self.random.sample(range(low, high + 1), count)

    def values(self, choices: Sequence[str], count: int, always: str) -> list[str]:
        """`count` of the choices in any order; 2 to 3 of them are `always`. Rows can be kept by any of them."""
        self.words += [choice for choice in choices if choice not in self.words]
        wanted = self.random.randint(2, 3)
        rest = [choice for choice in choices if choice != always]
        drawn = [always] * wanted + [self.pick(rest) for _ in range(count - wanted)]
        self.random.shuffle(drawn)
        return drawn

    def promise(self) -> str:
        """What a colleague may answer."""
        return f"{self.word()} on {self.random.randint(2, 28)} {self.pick(MONTHS)}"

    # The whole.

    def finish(self, job: Job) -> tuple[str, dict[str, Any]]:
        """The request with names in braces, and the facts that an office is set up from."""
        self.locked.append(self.crowd(1)[0])
        self.bystander(self.locked[-1])
        plan = [self._fill(step) for step in job.plan]
        facts = {
            "people": sorted(self.people),
            "locked": sorted(self.locked),
            "files": self.files,
            "tables": self.tables,
            "channels": self.channels,
            "replies": self.replies,
            "issues": self.issues,
            "projects": self.kinds.get("project", [])[:1],
            "plan": plan,
            "offers": self._offers(plan),
            "goals": list(job.goals),
        }
        return self._fill(self.pick(job.requests)), facts

    def _offers(self, plan: list[str]) -> list[str]:
        wrong = [other for step in plan for other in self._mistaken(step)]
        self.random.shuffle(wrong)
        generic = [call for call in self._possible() if call not in plan]
        self.random.shuffle(generic)
        some = [call for call in dict.fromkeys(wrong) if call not in plan][:WRONG_THINGS]
        return sorted(list(dict.fromkeys([*plan, DONE, *some, *generic]))[: max(OFFERED, len(set(plan)) + 5)])

    def _mistaken(self, step: str) -> Iterable[str]:
        """The step with another thing of the same kind in the place of one that it names."""
        for name in NAMED.findall(step):
            alike = next(names for names in self.kinds.values() if name in names)
            yield from (step.replace(f"{{{name}}}", f"{{{other}}}") for other in alike if other != name)

    def _possible(self) -> Iterable[str]:
        """Calls of all kinds on the things that the task names."""
        verbs = {
            "person": ("tell", "ask", "share", "assign"),
            "sheet": ("open", "join"),
            "output": ("save",),
            "text": ("read",),
            "table": ("query", "insert"),
            "channel": ("post",),
            "issue": ("find",),
            "project": ("issues",),
        }
        named = set(self.roles.values())
        for kind, names in self.kinds.items():
            yield from (f"{verb} {{{name}}}" for verb in verbs[kind] for name in names if name in named)
        yield from (f"{verb} {column}" for verb in ("sum", "count", "max", "min", "list") for column in self.columns)
        yield from (f"keep {word}" for word in self.words)
        yield from ("close", "reopen", "comment", "first 3", "label bug")

    def _fill(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: f"{{{self.roles[found[1]]}}}", text)

    def _content(self, columns: Sequence[str], rows: Rows) -> dict[str, Any]:
        self.columns += [column for column in columns if column not in self.columns]
        return {"columns": list(columns), "rows": rows}

    def _pair(self, role: str, kind: str, make: Callable[[], str]) -> str:
        """A name for the role; another one of the same kind is locked."""
        name = self._name(role, kind, self._fresh(make))
        other = self._fresh(make)
        self.kinds[kind].append(other)
        self.locked.append(other)
        return name

    def _name(self, role: str, kind: str, name: str) -> str:
        self.roles[role] = name
        self.kinds.setdefault(kind, []).append(name)
        return name

    def _fresh(self, make: Callable[[], str]) -> str:
        while (name := make()) in self._taken:
            pass
        self._taken.add(name)
        return name


# Goals, as `graders` reads them.


def desk(name: str, rows: Rows) -> Goal:
    return {"kind": "desk", "name": name, "points": 1, "rows": rows}


def asked(person: str) -> Goal:
    return {"kind": "asked", "name": f"{person} was asked", "points": 1, "person": person}


def saved(file: str, rows: Rows) -> Goal:
    return {"kind": "saved", "name": f"{file} is right", "points": 2, "file": file, "rows": rows}


def told(to: str, *holds: Any, lacks: Iterable[Any] = ()) -> Goal:
    goal = {"kind": "told", "name": f"{to} was told", "points": 2, "to": to}
    return {**goal, "holds": list(holds), "lacks": [one for one in lacks if one not in holds]}


def member(channel: str, person: str) -> Goal:
    return {"kind": "member", "name": f"{person} is in {channel}", "points": 1, "channel": channel, "person": person}


def shared(file: str, person: str) -> Goal:
    return {"kind": "shared", "name": f"{person} may read {file}", "points": 1, "file": file, "person": person}


def issue(title: str, **wanted: str) -> Goal:
    said = " and ".join(f"{name} {value}" for name, value in wanted.items())
    return {"kind": "issue", "name": f"{title} has {said}", "points": 1, "title": title, **wanted}


def labelled(title: str, label: str) -> Goal:
    return {"kind": "labelled", "name": f"{title} is labelled {label}", "points": 1, "title": title, "label": label}


def commented(title: str, *holds: Any, lacks: Iterable[Any] = ()) -> Goal:
    goal = {"kind": "commented", "name": f"{title} says so", "points": 1, "title": title}
    return {**goal, "holds": list(holds), "lacks": [one for one in lacks if one not in holds]}


def recorded(table: str, row: Sequence[Any]) -> Goal:
    return {"kind": "recorded", "name": f"{table} has the row", "points": 2, "table": table, "row": list(row)}
