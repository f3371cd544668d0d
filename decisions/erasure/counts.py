"""Previews an erasure: counts of rows, and of items and projects that stay because other decisions are about them."""

from __future__ import annotations

from django.db import connection

from decisions.erasure.erasing import EPISODE_IS_ERASED, MINE, Person, field_of, person_parameters
from decisions.models.tombstones import ERASED_TEXT, NOT_ERASED, PSEUDONYM_PREFIX
from models_registry.erasure import count_exposures
from workspaces.models import Workspace

_COUNTS = f"""
WITH mine AS MATERIALIZED ({{mine}}),
refs AS MATERIALIZED (
  SELECT item_ref AS ref FROM mine WHERE item_ref IS NOT NULL
  UNION SELECT m.unit FROM mine m JOIN decisions_agent a ON a.id = m.agent_id
         WHERE a.unit = 'item' AND m.unit = %(unit)s
), episodes AS MATERIALIZED (
  SELECT id FROM decisions_episode
   WHERE workspace_id = %(workspace)s
     AND (id IN (SELECT episode_id FROM mine
                 UNION SELECT episode_id FROM decisions_step WHERE decision_id IN (SELECT id FROM mine))
          OR unit = %(unit)s)
), items AS MATERIALIZED (
  SELECT i.id, i.project_ref,
         EXISTS (SELECT 1 FROM decisions_decision d
                  WHERE d.workspace_id = %(workspace)s AND d.item_ref = i.ref AND d.{NOT_ERASED}
                    AND d.id NOT IN (SELECT id FROM mine)) AS shared
    FROM decisions_item i WHERE i.workspace_id = %(workspace)s AND i.ref IN (SELECT ref FROM refs)
), projects AS MATERIALIZED (
  SELECT EXISTS (SELECT 1 FROM decisions_decision d
                  WHERE d.workspace_id = %(workspace)s AND d.project_ref = p.ref AND d.{NOT_ERASED}
                    AND d.id NOT IN (SELECT id FROM mine))
      OR EXISTS (SELECT 1 FROM decisions_item i WHERE i.workspace_id = %(workspace)s AND i.project_ref = p.ref
                    AND i.id NOT IN (SELECT id FROM items WHERE NOT shared)) AS shared
    FROM decisions_project p
   WHERE p.workspace_id = %(workspace)s AND p.ref IN (
     SELECT project_ref FROM mine
     UNION SELECT project_ref FROM items WHERE NOT shared
     UNION SELECT m.unit FROM mine m JOIN decisions_agent a ON a.id = m.agent_id
            WHERE a.unit = 'project' AND m.unit = %(unit)s)
)
SELECT (SELECT count(*) FROM mine),
       (SELECT count(*) FROM decisions_feedback WHERE decision_id IN (SELECT id FROM mine))
       + (SELECT count(*) FROM decisions_feedback
           WHERE workspace_id = %(workspace)s AND decision_id IS NULL AND {NOT_ERASED}
             AND (unit = %(unit)s OR episode_id IN (SELECT id FROM episodes))),
       (SELECT count(*) FROM decisions_label WHERE decision_id IN (SELECT id FROM mine))
       + (SELECT count(*) FROM decisions_label
           WHERE episode_id IN (SELECT id FROM episodes) AND (note <> '' OR corrected_action IS NOT NULL)),
       (SELECT count(*) FROM decisions_reward WHERE decision_id IN (SELECT id FROM mine)),
       (SELECT count(*) FROM decisions_step WHERE decision_id IN (SELECT id FROM mine))
       + (SELECT count(*) FROM decisions_step
           WHERE decision_id IS NULL AND episode_id IN (SELECT id FROM episodes) AND {NOT_ERASED}),
       (SELECT count(*) FROM decisions_episode WHERE id IN (SELECT id FROM episodes) AND NOT {EPISODE_IS_ERASED}),
       (SELECT count(*) FROM items WHERE NOT shared),
       (SELECT count(*) FROM projects WHERE NOT shared),
       (SELECT count(*) FROM decisions_statuschange
         WHERE workspace_id = %(workspace)s AND {NOT_ERASED}
           AND (item_id IN (SELECT id FROM items WHERE NOT shared) OR decision_id IN (SELECT id FROM mine))),
       (SELECT count(*) FROM items WHERE shared),
       (SELECT count(*) FROM projects WHERE shared),
       (SELECT array_agg(DISTINCT exposure_id) FILTER (WHERE exposure_id IS NOT NULL) FROM mine)
"""  # noqa: S608
COUNTED = (
    *("decisions", "feedback", "labels", "rewards", "steps", "episodes", "items", "projects", "status_changes"),
    *("items_shared", "projects_shared"),
)


def count_person(*, workspace: Workspace, person: Person) -> dict[str, int]:
    """What an erasure would find, by kind of row; nothing is changed. Items and projects that are `shared` stay: other
    decisions are about them."""
    columns = "id, episode_id, exposure_id, agent_id, unit, item_ref, project_ref"
    mine = MINE.format(columns=columns, field=field_of(person))
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNTS.format(mine=mine),
            person_parameters(workspace, person)
            | {"unit": person.unit, "prefix": PSEUDONYM_PREFIX, "erased": ERASED_TEXT},
        )
        *numbers, exposures = cursor.fetchone()
    counts = dict(zip(COUNTED, numbers, strict=True))
    return counts | count_exposures(workspace=workspace, ids=exposures or [], unit=person.unit)
