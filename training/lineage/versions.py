"""What a dataset, a run or a version was made from, and what was made from it: one statement for both directions.

dataset → run → version → experiments and exports; a version is also the base of later runs, and the weights under
adapters.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from training.models.export import ExportFormat
from workspaces.errors import NotFound
from workspaces.models import Workspace

MOST = 1_000
DATASET, RUN, VERSION, EXPERIMENT, EXPORT = "dataset", "run", "version", "experiment", "export"
# A version that no run made (an import, a remote one) may still say what it was made from. Each walk visits a node
# once, so that a circle ends.
_LINEAGE = """
WITH RECURSIVE link AS MATERIALIZED (
  SELECT 'dataset' AS from_kind, used.id AS from_id, 'run' AS to_kind, r.id AS to_id, used.role
    FROM training_trainingrun r,
         LATERAL (VALUES (r.dataset_id, 'train'), (r.heldout_id, 'heldout'), (r.replay_id, 'replay')) AS used(id, role)
   WHERE r.workspace_id = %(workspace)s AND used.id IS NOT NULL
  UNION ALL
  SELECT 'version', r.base_version_id, 'run', r.id, 'base'
    FROM training_trainingrun r WHERE r.workspace_id = %(workspace)s AND r.base_version_id IS NOT NULL
  UNION ALL
  SELECT 'version', v.id, 'run', r.id, 'reward_model'
    FROM training_trainingrun r,
         jsonb_array_elements(CASE jsonb_typeof(r.spec->'reward') WHEN 'array' THEN r.spec->'reward' ELSE '[]' END) one
    JOIN models_registry_modelversion v ON v.id::text = one->>'version' AND v.workspace_id = %(workspace)s
   WHERE r.workspace_id = %(workspace)s AND jsonb_typeof(one) = 'object'
  UNION ALL
  SELECT 'run', r.id, 'version', r.produced_version_id, 'produced'
    FROM training_trainingrun r WHERE r.workspace_id = %(workspace)s AND r.produced_version_id IS NOT NULL
  UNION ALL
  SELECT 'version', v.base_id, 'version', v.id, 'weights'
    FROM models_registry_modelversion v WHERE v.workspace_id = %(workspace)s AND v.base_id IS NOT NULL
  UNION ALL
  SELECT 'version', v.parent_id, 'version', v.id, 'parent'
    FROM models_registry_modelversion v
   WHERE v.workspace_id = %(workspace)s AND v.parent_id IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM training_trainingrun r WHERE r.produced_version_id = v.id)
  UNION ALL
  SELECT 'version', a.version_id, 'experiment', a.experiment_id, a.arm
    FROM models_registry_variant a WHERE a.workspace_id = %(workspace)s
  UNION ALL
  SELECT 'version', e.version_id, 'export', e.id, e.format
    FROM training_exportjob e WHERE e.workspace_id = %(workspace)s
), above AS (
  SELECT %(kind)s::text AS kind, %(id)s::uuid AS id
  UNION
  SELECT l.from_kind, l.from_id FROM link l JOIN above a ON l.to_kind = a.kind AND l.to_id = a.id
), below AS (
  SELECT %(kind)s::text AS kind, %(id)s::uuid AS id
  UNION
  SELECT l.to_kind, l.to_id FROM link l JOIN below b ON l.from_kind = b.kind AND l.from_id = b.id
), walked AS (
  SELECT l.* FROM link l
    JOIN above f ON l.from_kind = f.kind AND l.from_id = f.id JOIN above t ON l.to_kind = t.kind AND l.to_id = t.id
  UNION
  SELECT l.* FROM link l
    JOIN below f ON l.from_kind = f.kind AND l.from_id = f.id JOIN below t ON l.to_kind = t.kind AND l.to_id = t.id
), node AS (
  SELECT kind, id FROM above UNION SELECT kind, id FROM below
), named AS (
  SELECT n.kind, n.id, m.name || ':' || v.number AS name, v.state::text AS state, v.created_at AS at, '' AS agent
    FROM node n JOIN models_registry_modelversion v ON n.kind = 'version' AND v.id = n.id
    JOIN models_registry_registeredmodel m ON m.id = v.registered_model_id WHERE v.workspace_id = %(workspace)s
  UNION ALL
  SELECT n.kind, n.id, a.name || ' ' || r.method, r.state, r.created_at, a.slug
    FROM node n JOIN training_trainingrun r ON n.kind = 'run' AND r.id = n.id
    JOIN decisions_agent a ON a.id = r.agent_id WHERE r.workspace_id = %(workspace)s
  UNION ALL
  SELECT n.kind, n.id, d.name, d.kind, d.created_at, a.slug
    FROM node n JOIN training_datasetsnapshot d ON n.kind = 'dataset' AND d.id = n.id
    JOIN decisions_agent a ON a.id = d.agent_id
   WHERE d.workspace_id = %(workspace)s
  UNION ALL
  SELECT n.kind, n.id, e.name, e.state, e.started_at, ''
    FROM node n JOIN models_registry_experiment e ON n.kind = 'experiment' AND e.id = n.id
   WHERE e.workspace_id = %(workspace)s
  UNION ALL
  SELECT n.kind, n.id, m.name || ':' || v.number || ', ' || e.format, e.state, e.created_at, ''
    FROM node n JOIN training_exportjob e ON n.kind = 'export' AND e.id = n.id
    JOIN models_registry_modelversion v ON v.id = e.version_id
    JOIN models_registry_registeredmodel m ON m.id = v.registered_model_id WHERE e.workspace_id = %(workspace)s
)
SELECT (SELECT json_agg(json_build_array(kind, id, name, state, at, agent))
          FROM (SELECT * FROM named
                 ORDER BY (kind = %(kind)s AND id = %(id)s) DESC, at DESC, id LIMIT %(most)s) newest),
       (SELECT json_agg(json_build_array(from_kind, from_id, to_kind, to_id, role)) FROM walked)
"""
Key = tuple[str, uuid.UUID]
PARTS: Mapping[bool, Mapping[str, str]] = {
    True: {
        "train": "training rows",
        "heldout": "held-out rows",
        "replay": "replay rows",
        "base": "base",
        "reward_model": "reward model",
        "produced": "by",
        "weights": "adapter on",
        "parent": "from",
    },
    False: {
        "train": "trained on by",
        "heldout": "held out by",
        "replay": "replayed by",
        "base": "base of",
        "reward_model": "reward model of",
        "produced": "created",
        "weights": "under the adapter",
        "parent": "parent of",
        "control": "control of",
        "treatment": "treatment of",
        **dict.fromkeys(ExportFormat.values, "exported as"),
    },
}
"""What is said of a node that came before the start, and of one that came after it."""


@dataclass(frozen=True, slots=True)
class Node:
    """`state` is that of its kind; of a dataset its kind of rows. `agent`: the slug of a dataset's or a run's.
    `distance`: links from the start, below 0 for what it was made from. `role`: what the node is on the way to the
    start, see `Link`."""

    kind: str
    id: uuid.UUID
    name: str
    state: str
    at: dt.datetime
    agent: str = ""
    distance: int = 0
    role: str = ""

    @property
    def key(self) -> Key:
        return self.kind, self.id

    @property
    def part(self) -> str:
        """Its role in words, before its name."""
        return PARTS[self.distance < 0].get(self.role, "")


@dataclass(frozen=True, slots=True)
class Link:
    """From what came first to what came of it. `role`: train, heldout, replay (a dataset of a run), base, reward_model
    (a version of a run), produced, weights (under an adapter), parent, an arm, or the format of an export."""

    source: Key
    target: Key
    role: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """`above`: what it came from, the furthest first; `below`: what came of it, the nearest first. Each node once."""

    start: Node
    above: Sequence[Node]
    below: Sequence[Node]
    links: Sequence[Link]


def read_lineage(workspace: Workspace, kind: str, pk: uuid.UUID) -> Lineage:
    """One statement; of more than `MOST` nodes the newest. Raises NotFound."""
    with connection.cursor() as cursor:
        cursor.execute(_LINEAGE, {"workspace": workspace.id, "kind": kind, "id": pk, "most": MOST})
        found, walked = (json.loads(one) if isinstance(one, str) else one or [] for one in cursor.fetchone())
    nodes = {node.key: node for node in map(_node, found)}
    if (start := nodes.get((kind, pk))) is None:
        raise NotFound(f"{kind.capitalize()} not found.")
    links = [Link((a, uuid.UUID(b)), (c, uuid.UUID(d)), role) for a, b, c, d, role in walked]
    links = [link for link in links if link.source in nodes and link.target in nodes]
    above = _walk(start, nodes, [(link.target, link.source, link.role) for link in links], -1)
    below = _walk(start, nodes, [(link.source, link.target, link.role) for link in links], 1)
    return Lineage(start, above[::-1], below, links)


def _node(row: Sequence[Any]) -> Node:
    kind, pk, name, state, at, agent = row
    return Node(kind, uuid.UUID(pk), name, state, dt.datetime.fromisoformat(at), agent)


def _walk(start: Node, nodes: Mapping[Key, Node], steps: Iterable[tuple[Key, Key, str]], way: int) -> list[Node]:
    """Every node that the steps reach from the start, each at its shortest distance, the nearest and newest first."""
    onward: dict[Key, list[tuple[Key, str]]] = {}
    for here, there, role in steps:
        onward.setdefault(here, []).append((there, role))
    reached: dict[Key, Node] = {start.key: start}
    edge, distance = [start.key], 0
    while edge:
        distance += way
        met: dict[Key, str] = {}
        for key in edge:
            for there, role in onward.get(key, ()):
                if there not in reached:
                    met.setdefault(there, role)
        edge = list(met)
        for key, role in met.items():
            reached[key] = replace(nodes[key], distance=distance, role=role)
    others = [node for node in reached.values() if node.key != start.key]
    return sorted(others, key=lambda one: (abs(one.distance), -one.at.timestamp(), one.id))
