"""Lists and searches over a million decisions: server time of each page and filter, and its statements.

    python -m benchmarks.browse [--quick] [--keep DIR] [--fill] [--only TEXT] [--explain]

A ledger of a million decisions (100,000 with --quick; `benchmarks.large_ledger`), asked through Django's test client:
session or key, permissions, statements, template or serializer. Each look is warmed up and then repeated; the median is
what is bounded. Prints a row per look and one JSON object as the last line; exits 1 when a point misses its bound.
--keep DIR leaves servers' files and ledger there and takes them the next time, --fill only fills; --only picks looks by
a part of their name, and --explain prints the slowest statements' plans.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.large_ledger import FOREIGN, large_ledger

BOUND_MS = 100.0
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Look:
    """One request. Without a bound it is only reported. `finds`: the answer holds rows, or none."""

    name: str
    path: str
    bounded: bool = True
    by_key: bool = False
    body: bytes | None = None


def pages(slug: str, ids: dict[str, Any]) -> Iterator[Look]:
    path = f"/w/{slug}/decisions/"
    asked: dict[str, dict[str, Any]] = {
        "first page": {},
        "deep page": {"before": ids["deep"]},
        "last page": {"before": ids["last"]},
        "most uncertain": {"order": "uncertain"},
        "agent": {"agent": "filer"},
        "agent, few and old": {"agent": "archivist"},
        "agent, none": {"agent": "idle"},
        "agent, deep": {"agent": "filer", "before": ids["deep"]},
        "verdict confirmed": {"verdict": "confirmed"},
        "no verdict": {"verdict": "no_verdict"},
        "verdict overridden, far back": {"verdict": "overridden"},
        "verdict overridden, looked further": {"verdict": "overridden", "before": ids["deep"]},
        "verdict, agent few and old": {"verdict": "confirmed", "agent": "archivist"},
        "last hour": {"since": "1h"},
        "last 24 hours": {"since": "24h"},
        "last 7 days": {"since": "7d"},
        "model, in use": {"version": "filer:2"},
        "model, of long ago": {"version": "filer:1"},
        "arm": {"arm": "treatment"},
        "agent, verdict, time": {"agent": "filer", "verdict": "corrected", "since": "7d"},
        "agent, verdict, model, arm": {
            "agent": "filer", "verdict": "confirmed", "version": "filer:2", "arm": "control",
        },
        "all filters, nothing": {
            "agent": "filer", "verdict": "overridden", "version": "filer:1", "arm": "control", "since": "7d",
            "order": "uncertain",
        },
        "search: id": {"q": ids["deep"]},
        "search: foreign id": {"q": ids["foreign"]},
        "search: unit": {"q": "user-17"},
        "search: busy unit": {"q": "user-busy"},
        "search: unit seen once, long ago": {"q": "user-once"},
        "search: item": {"q": "item-187"},
        "search: external id": {"q": "order-3003"},
        "search: unit, agent, verdict": {"q": "user-17", "agent": "filer", "verdict": "confirmed"},
        "search: busy unit, agent few and old": {"q": "user-busy", "agent": "archivist"},
        "search: word, common": {"q": "museum"},
        "search: word, rare": {"q": "saffron"},
        "search: word, once and long ago": {"q": "zanzibar"},
        "search: two words, agent, verdict": {"q": "museum saffron", "agent": "filer", "verdict": "confirmed"},
        "search: nothing like it": {"q": "xylophone quartz"},
    }  # fmt: skip
    for name, query in asked.items():
        yield Look(f"decisions: {name}", f"{path}?{urlencode(query)}")
    yield Look("a decision", f"{path}{ids['deep']}")
    yield Look("a decision, within a filter", f"{path}{ids['deep']}?agent=archivist&verdict=overridden")
    for name, query in {
        "all": {}, "an agent": {"agent": "filer"}, "agent without any": {"agent": "idle"},
        "a unit": {"q": "user-17"}, "words": {"q": "museum"},
    }.items():  # fmt: skip
        yield Look(f"label: {name}", f"{path}label?{urlencode(query)}")
    path = f"/w/{slug}/episodes/"
    episodes: dict[str, dict[str, Any]] = {
        "first page": {},
        "deep page": {"before": ids["deep"]},
        "last page": {"before": ids["last"]},
        "agent": {"agent": "filer"},
        "agent, few and old": {"agent": "archivist"},
        "agent, none": {"agent": "idle"},
        "last hour": {"since": "1h"},
        "last 7 days": {"since": "7d"},
        "with failures": {"state": "failed"},
        "with failures, agent few and old": {"state": "failed", "agent": "archivist"},
        "session": {"session": "session-100"},
        "session, none": {"session": "nobody"},
        "search: name": {"q": ids["episode_name"]},
        "search: id": {"q": ids["episode"]},
        "search: unit": {"q": ids["episode_unit"]},
        "search: nothing like it": {"q": "xylophone"},
        "agent, time, failures, search": {"agent": "filer", "since": "7d", "state": "failed", "q": "xylophone"},
    }
    for name, query in episodes.items():
        yield Look(f"episodes: {name}", f"{path}?{urlencode(query)}")
    yield Look("an episode", f"{path}{ids['episode']}/")


def cursor(position: Any) -> str:
    return base64.b64encode(urlencode({"p": position}).encode()).decode()


def lists(ids: dict[str, Any]) -> Iterator[Look]:
    asked: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "decisions": [
            ("first page", {}),
            ("deep page", {"cursor": cursor(ids["deep"])}),
            ("last page", {"cursor": cursor(ids["last"])}),
            ("500 rows", {"limit": 500}),
            ("agent", {"agent": "filer"}),
            ("agent, deep", {"agent": "filer", "cursor": cursor(ids["deep"])}),
            ("agent, few and old", {"agent": "archivist"}),
            ("agent, none", {"agent": "idle"}),
            ("agent, unknown", {"agent": "nobody"}),
            ("unit", {"unit": "user-17"}),
            ("busy unit", {"unit": "user-busy"}),
            ("busy unit, deep", {"unit": "user-busy", "cursor": cursor(ids["deep"])}),
            ("unit seen once, long ago", {"unit": "user-once"}),
            ("unit, unknown", {"unit": "nobody"}),
            ("item", {"item": "item-187"}),
            ("item, unknown", {"item": "nothing"}),
            ("agent and unit", {"agent": "filer", "unit": "user-17"}),
            ("agent few and old, busy unit", {"agent": "archivist", "unit": "user-busy"}),
            ("agent and busy unit", {"agent": "storer", "unit": "user-busy"}),
            ("agent, unit, item", {"agent": "filer", "unit": "user-17", "item": "item-187"}),
        ],
        "episodes": [
            ("first page", {}),
            ("deep page", {"cursor": cursor(ids["deep"])}),
            ("agent", {"agent": "filer"}),
            ("agent, few and old", {"agent": "archivist"}),
            ("agent, none", {"agent": "idle"}),
            ("session", {"session": "session-100"}),
            ("unit", {"unit": ids["episode_unit"]}),
            ("unit, unknown", {"unit": "nobody"}),
        ],
        "steps": [
            ("first page", {}),
            ("episode", {"episode": ids["episode"]}),
            ("decision", {"decision": ids["in_episode"]}),
        ],
    }
    for of, queries in asked.items():
        for name, query in queries:
            look = f"/api/v1/{of}?{urlencode(query)}"
            yield Look(f"api {of}: {name}", look, by_key=True, bounded=name != "500 rows")
    yield Look("api decision", f"/api/v1/decisions/{ids['deep']}", by_key=True)
    yield Look("api episode", f"/api/v1/episodes/{ids['episode']}", by_key=True)


def notes(ids: dict[str, Any]) -> Iterator[Look]:
    """What the notes app reads: reported, since it asks for a thousand rows and for sums over everything."""
    asked: dict[str, str] = {
        "list, 100": "decisions?limit=100",
        "list, 1,000": "decisions",
        "list, a kind, judged, rewarded": "decisions?agentType=FILER&requireFeedback=true&requireReward=true&limit=100",
        "list, a high reward, which none has": "decisions?minReward=1.5&requireReward=true&limit=100",
        "stats": "stats",
        "stats of a kind": "stats?agentType=FILER",
        "pending rewards": "calculate-pending",
        "pending outcomes": "outcomes",
        "export, 1,000": "export",
        "export-file, 1,000": "export-file?agentType=FILER",
    }
    for name, path in asked.items():
        yield Look(f"notes app: {name}", f"/api/training/{path}", bounded=False, by_key=True)
    body = json.dumps({"decisionIds": [str(one) for one in ids["some"]]}).encode()
    yield Look("notes app: rewards of 50 ids", "/api/training/decisions", bounded=False, by_key=True, body=body)


def find_ids(slug: str) -> dict[str, Any]:
    from django.db import connection

    from decisions.models import Decision, Episode
    from workspaces.models import Workspace

    workspace = Workspace.objects.get(slug=slug)
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM decisions_decision WHERE workspace_id = %s ORDER BY id", [workspace.id])
        own = [row[0] for row in cursor.fetchall()]
    deep = own[len(own) // 2]
    episode = Episode.objects.filter(workspace=workspace, id__gt=deep, external_id__startswith="m").order_by("id")[0]
    return {
        "deep": deep,
        "last": own[20],
        "some": own[len(own) // 2 :: 97][:50],
        "foreign": Decision.objects.filter(workspace__slug=FOREIGN).order_by("id")[100].id,
        "episode": episode.id,
        "episode_name": episode.external_id,
        "episode_unit": episode.unit,
        "in_episode": Decision.objects.filter(episode=episode).order_by("id")[0].id,
    }


class Asker:
    """A person's session and a key of the workspace."""

    def __init__(self, slug: str) -> None:
        from django.test import Client

        from tools.factories import MembershipFactory, UserFactory
        from workspaces.access.actors import system
        from workspaces.access.services import create_api_key
        from workspaces.models import Workspace

        workspace = Workspace.objects.get(slug=slug)
        user = UserFactory(email=f"{uuid.uuid4()}@example.org")
        MembershipFactory(workspace=workspace, user=user)
        self._page, self._api = Client(), Client()
        self._page.force_login(user)
        token = create_api_key(by=system(workspace), name="browse", scopes=("admin",)).token
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, look: Look) -> int:
        """The bytes of the answer."""
        if look.body is not None:
            answer = self._api.post(look.path, look.body, content_type="application/json", headers=self._headers)
        elif look.by_key:
            answer = self._api.get(look.path, headers=self._headers)
        else:
            answer = self._page.get(look.path)
        assert answer.status_code == 200, (look.path, answer.status_code)
        return len(answer.getvalue())


def measure(look: Look, asker: Asker, times: int, *, explain: bool) -> dict[str, Any]:
    import psycopg
    from django.db import connection

    captured: list[tuple[float, str]] = []

    def keep(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            text = sql if isinstance(sql, str) else sql.as_string(connection.connection)
            written = psycopg.ClientCursor(connection.connection).mogrify(text, params) if params else text
            captured.append(((time.perf_counter() - began) * 1000, written))

    for _ in range(WARM_UPS):
        asker.ask(look)
    with connection.execute_wrapper(keep):
        size = asker.ask(look)
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        asker.ask(look)
        spent.append((time.perf_counter() - began) * 1000)
        if sum(spent) > 20_000:
            break
    if explain:
        for took, statement in sorted(captured, reverse=True)[:2]:
            print(f"--- {took:.1f} ms\n{statement}")
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement}")
                print("\n".join(row[0] for row in cursor.fetchall()))
    return {
        "look": look.name,
        "bounded": look.bounded,
        "median_ms": round(statistics.median(spent), 1),
        "slowest_ms": round(max(spent), 1),
        "statements": len(captured),
        "statements_ms": round(sum(took for took, _ in captured), 1),
        "bytes": size,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the ledger there, and use the one that is there")
    parser.add_argument("--fill", action="store_true", help="fill the ledger and measure nothing")
    parser.add_argument("--only", default="", metavar="TEXT", help="looks whose name holds this")
    parser.add_argument("--explain", action="store_true", help="print plans of the slowest statements")
    options = parser.parse_args()
    began = time.monotonic()
    load = os.getloadavg()[0]
    rows = 100_000 if options.quick else 1_000_000
    with large_ledger(rows, options.keep) as slug:
        if options.fill:
            return 0
        ids = find_ids(slug)
        asker = Asker(slug)
        looks = [look for look in (*pages(slug, ids), *lists(ids), *notes(ids)) if options.only in look.name]
        figures = []
        for look in looks:
            found = measure(look, asker, 5 if options.quick else 15, explain=options.explain)
            figures.append(found)
            verdict = ("pass" if found["median_ms"] <= BOUND_MS else "FAIL") if look.bounded else ""
            print(
                f"{look.name:<52} {found['median_ms']:>8.1f} ms  slowest {found['slowest_ms']:>8.1f}"
                f"  {found['statements']:>3} statements {found['statements_ms']:>8.1f} ms  {verdict}",
                flush=True,
            )
    bounded = [found for found in figures if found["bounded"]]
    missed = [found["look"] for found in bounded if found["median_ms"] > BOUND_MS]
    worst = max(bounded, key=lambda found: found["median_ms"], default=None)
    report = {
        "benchmark": "browse",
        "quick": options.quick,
        "rows": rows,
        "passed": bool(figures) and not missed,
        "missed": missed,
        "bounded": len(bounded),
        "worst_ms": worst and worst["median_ms"],
        "worst": worst and worst["look"],
        "load_before": round(load, 1),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps({**report, "figures": figures}))
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
