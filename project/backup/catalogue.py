"""What a restored database may run: the functions and triggers of our own migrations, and built-in functions without
effects. `project.backup.confined` looks before the product's role owns anything of a dump.

Read with `search_path = pg_catalog` alone: a dump may hold functions and operators with names of built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg

FUNCTIONS = {
    "refuse_audit_change": "5b796580e23d91a66954b74e36f165e81b722a9074045944c4ffe3f667c74e78",
    "refuse_ledger_change": "5b796580e23d91a66954b74e36f165e81b722a9074045944c4ffe3f667c74e78",
    "refuse_change_but_erasure": "f4c09ef1cda01fe47aaadc2e6504ebc4d47acb204189f4e66b689a5b56592293",
}
"""By name the SHA-256 of the body, as migrations make it."""
TRIGGERS = {
    "workspaces_auditentry_append_only": "refuse_audit_change",
    "decisions_agentversion_append_only": "refuse_ledger_change",
    "decisions_rewardspec_append_only": "refuse_ledger_change",
    "decisions_feedback_append_only": "refuse_change_but_erasure",
    "decisions_reward_append_only": "refuse_change_but_erasure",
}
"""By name the function that the trigger runs; those of partitions have the same name."""
KINDS = ["table", "sequence", "function"]
"""Of objects with an owner, as pg_identify_object names them. Functions are looked at one by one."""
NODES = frozenset({
    "ARRAYCOERCEEXPR", "ARRAYEXPR", "BOOLEANTEST", "BOOLEXPR", "CASEEXPR", "CASETESTEXPR", "CASEWHEN", "COALESCEEXPR",
    "CONST", "DISTINCTEXPR", "FUNCEXPR", "NULLIFEXPR", "NULLTEST", "OPEXPR", "RELABELTYPE", "SCALARARRAYOPEXPR", "VAR",
})  # fmt: skip
"""Of stored expressions. These name all that they call as `:opno`, `:funcid` and the like."""
NOT_IMMUTABLE = ["statement_timestamp"]
"""The built-in functions of our defaults that are not immutable."""

OWNED = """
SELECT named.type || ' ' || named.identity
FROM pg_shdepend AS owned, pg_identify_object(owned.classid, owned.objid, owned.objsubid) AS named
WHERE owned.refclassid = 'pg_authid'::regclass AND owned.refobjid = %(owner)s AND owned.deptype = 'o'
  AND owned.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND named.type <> ALL (%(kinds)s)
"""
ATTACHED = """
SELECT named.type || ' ' || named.identity FROM (
  SELECT 'pg_rewrite'::regclass, rule.oid FROM pg_rewrite AS rule JOIN pg_class AS relation ON relation.oid = ev_class
    WHERE relowner = %(owner)s AND relkind IN ('r', 'p')
  UNION ALL SELECT 'pg_policy'::regclass, policy.oid FROM pg_policy AS policy
    JOIN pg_class AS relation ON relation.oid = polrelid WHERE relowner = %(owner)s
  UNION ALL SELECT 'pg_publication_rel'::regclass, published.oid FROM pg_publication_rel AS published
    JOIN pg_class AS relation ON relation.oid = prrelid WHERE relowner = %(owner)s
  UNION ALL SELECT 'pg_cast'::regclass, conversion.oid FROM pg_cast AS conversion
    JOIN pg_type AS type ON type.oid IN (castsource, casttarget) WHERE typowner = %(owner)s
) AS attached (kind, id), pg_identify_object(attached.kind, attached.id, 0) AS named
UNION ALL SELECT 'row-level security of table ' || oid::regclass FROM pg_class
  WHERE relowner = %(owner)s AND (relrowsecurity OR relforcerowsecurity)
UNION ALL SELECT 'privileges on ' || oid::regclass FROM pg_class WHERE relowner = %(owner)s AND relacl IS NOT NULL
UNION ALL SELECT 'privileges on ' || attrelid::regclass || '.' || quote_ident(attname) FROM pg_attribute
  JOIN pg_class AS relation ON relation.oid = attrelid WHERE relowner = %(owner)s AND attacl IS NOT NULL
"""
OWN_FUNCTIONS = """
SELECT oid::regprocedure::text, proname, encode(sha256(convert_to(prosrc, 'UTF8')), 'hex'),
  prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql') AND prorettype = 'trigger'::regtype
  AND NOT prosecdef AND proconfig IS NULL AND proacl IS NULL
FROM pg_proc WHERE proowner = %(owner)s AND prokind = 'f'
"""
OWN_TRIGGERS = """
SELECT named.identity, tgname, CASE WHEN proowner = %(owner)s THEN proname ELSE '' END
FROM pg_trigger JOIN pg_class AS relation ON relation.oid = tgrelid JOIN pg_proc AS function ON function.oid = tgfoid,
  pg_identify_object('pg_trigger'::regclass, pg_trigger.oid, 0) AS named
WHERE relowner = %(owner)s AND NOT tgisinternal
"""
EXPRESSIONS = """
SELECT named.type || ' ' || named.identity, expression.tree FROM (
  SELECT 'pg_attrdef'::regclass, stored.oid, adbin::text, adrelid FROM pg_attrdef AS stored
  UNION ALL SELECT 'pg_constraint'::regclass, oid, conbin::text, conrelid FROM pg_constraint
  UNION ALL SELECT 'pg_class'::regclass, indexrelid, concat(indexprs, indpred), indrelid FROM pg_index
  UNION ALL SELECT 'pg_class'::regclass, partrelid, partexprs::text, partrelid FROM pg_partitioned_table
  UNION ALL SELECT 'pg_trigger'::regclass, oid, tgqual::text, tgrelid FROM pg_trigger
) AS expression (kind, id, tree, table_id) JOIN pg_class AS relation ON relation.oid = expression.table_id,
  pg_identify_object(expression.kind, expression.id, 0) AS named
WHERE relowner = %(owner)s AND expression.tree <> ''
"""
OPERATORS = "SELECT oid::int8, oprcode::oid::int8 FROM pg_operator WHERE oid = ANY (%(operators)s::oid[])"
# 16384 is FirstNormalObjectId: below it lies only what came with the server.
WITH_EFFECTS = """
SELECT oid::int8, oid::regprocedure::text FROM pg_proc
WHERE oid = ANY (%(functions)s::oid[])
  AND NOT (oid < 16384 AND NOT prosecdef AND (provolatile = 'i' OR proname = ANY (%(not_immutable)s)))
"""


def list_refused(connection: psycopg.Connection[Any], owner: int) -> list[str]:
    """The kind and name of each object of this role that no backup of Reckoner holds. Raises psycopg.Error.

    The search path must be pg_catalog alone.
    """
    of_owner = {"owner": owner, "kinds": KINDS}
    refused = [row[0] for query in (OWNED, ATTACHED) for row in connection.execute(query.encode(), of_owner)]
    for identity, name, digest, is_plain in connection.execute(OWN_FUNCTIONS.encode(), of_owner):
        if not is_plain or FUNCTIONS.get(name) != digest:
            refused.append(f"function {identity}")
    for identity, name, function in connection.execute(OWN_TRIGGERS.encode(), of_owner):
        if TRIGGERS.get(name) != function:
            refused.append(f"trigger {identity}")
    return [*refused, *_check_expressions(connection, connection.execute(EXPRESSIONS.encode(), of_owner).fetchall())]


def _check_expressions(connection: psycopg.Connection[Any], expressions: list[tuple[str, str]]) -> Iterator[str]:
    """The defaults, checks, indexes and conditions that compute what ours do not, and what they call."""
    operators = _find_ids(("opno",), (tree for _, tree in expressions))
    functions_of = dict(connection.execute(OPERATORS.encode(), {"operators": sorted(operators)}).fetchall())
    called = {
        named: {functions_of[number] for number in _find_ids(("opno",), [tree])}
        | _find_ids(("funcid", "opfuncid", "hashfuncid", "negfuncid"), [tree])
        for named, tree in expressions
    }
    asked = {"functions": sorted(set().union(*called.values())), "not_immutable": NOT_IMMUTABLE}
    with_effects = dict(connection.execute(WITH_EFFECTS.encode(), asked).fetchall())
    for named, tree in expressions:
        names = sorted(with_effects[number] for number in called[named] & with_effects.keys())
        if names:
            yield f"{named}, which calls {', '.join(names)}"
        elif unknown := sorted(set(re.findall(r"\{([A-Z_]+)", tree)) - NODES):
            yield f"{named}, which computes {', '.join(unknown)}"


def _find_ids(fields: Iterable[str], trees: Iterable[str]) -> set[int]:
    """The object ids in those fields of stored expressions; 0 is none."""
    pattern = re.compile(rf":(?:{'|'.join(fields)}) (\d+)")
    return {int(number) for tree in trees for number in pattern.findall(tree)} - {0}
