"""Attacks on every function that runs with its owner's rights, generated from the types of its arguments.

A new function is included automatically. It is an error if an argument's name and type do not suggest a valid value.
"""

import itertools
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from tests.fixtures.database.cluster import Connection
from tests.fixtures.database.hostile import HOSTILE
from tests.fixtures.database.seeded import Seeded
from tests.isolation.matrix import ROLE

ACROSS_TENANTS = {
    "tenancy.list_tenants",
    "tenancy.create_tenant",
    "tenancy.delete_tenant",
    "tenancy.note_action",
    "tenancy.change_limits",
    "tenancy.list_revoked_tokens",
    "tenancy.revoke_token",
    "tenancy.prune_audit",
    "tenancy.outdated_statistics",
    "tenancy.analyze_table",
    "queue.claim_job",
    "queue.next_due",
    "queue.count_jobs",
}
"""Functions that are meant to act without a tenant; what they return about tenants is checked separately."""

FUNCTIONS = """
select p.oid, n.nspname || '.' || p.proname as name, p.proargnames[1:p.pronargs] as names,
       array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, place)
              order by place) as types
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where p.prosecdef and p.prorettype <> 'trigger'::regtype
   and n.nspname not in ('pg_catalog', 'information_schema')
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
 order by 2"""
FIELDS = """
select a.attname as name, format_type(a.atttypid, null) as type from pg_attribute a
 where a.attrelid = (select typrelid from pg_type where oid = $1::text::regtype) and a.attnum > 0
   and not a.attisdropped order by a.attnum"""

VALUES: Mapping[str, str] = {
    "p_tenant": "current_tenant()",
    "p_lexemes": "array['harbour', 'night', 'ship']",
    "p_languages": "array['english', 'english', 'english']",
    "p_frequencies": "array[null, null, null]::integer[]",
    "p_tags": "array['sea', 'night', 'harbour']",
    "p_kinds": "array['embed_entries', 'ingest_asset', 'refresh_statistics']",
    "p_weights": "null",
    "p_phrases": "null",
    "p_phrase_languages": "null",
    "p_alternatives": "array['harb:*']",
    "p_alternative_languages": "array[null]::text[]",
    "p_alternative_words": "array['harb']",
    "p_alternative_weights": "array[0.7]::double precision[]",
    "p_language": "null",
    "p_queries": "array['harbour', 'harb:*', 'night & !ship']",
    "p_parts": "'arbour'",
    "p_filter": "null",
    "p_model_id": "1",
    "p_slug": "'attack'",
    "p_outcome": "'done'",
}
DEFAULTS: Mapping[str, str] = {
    "text": "'harbour'",
    "text[]": "array['harbour']",
    "uuid": "gen_random_uuid()",
    "uuid[]": "array[gen_random_uuid()]",
    "integer": "100",
    "bigint": "100",
    "double precision": "1.5",
    "double precision[]": "array[1.0]",
    "boolean": "true",
    "interval": "interval '1 minute'",
    "timestamp with time zone": "now()",
    "jsonb": "'{}'::jsonb",
    "entry_filter": "null",
}
EXTREMES: Mapping[str, Sequence[str]] = {
    "integer": ("null", "0", "-1", "2147483647", "-2147483648"),
    "bigint": ("null", "0", "-1", "9223372036854775807"),
    "double precision": ("null", "0", "-1", "'NaN'::float8", "'Infinity'::float8"),
    "interval": ("null", "interval '-1 year'", "interval '1000000 years'"),
    "integer[]": ("null", "array[]::integer[]", "array[-1, 2147483647, null]"),
    "double precision[]": ("null", "array['NaN', '-Infinity']::float8[]"),
}


MALFORMED = re.compile("tsquery|no escaped character")
"""The syntax error that Postgres reports for a text that is not a valid tsquery."""


NO_TENANT = "00000000-0000-0000-0000-000000000001"


@dataclass(frozen=True, slots=True)
class Attack:
    """One call, and the tenant that is set before it (None: an empty one; "never": not set)."""

    function: str
    call: str
    setting: str | None
    aim: str


@dataclass(frozen=True, slots=True)
class Report:
    """How many attacks were tried, their aims, and their findings."""

    aims: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def attacks(self) -> int:
        return sum(self.aims.values())


async def attack_functions(superuser: Connection, seeded: Seeded, only: str | None = None) -> Report:
    """Call every definer function as the service's role with each kind of attack; with `only`, one until it fails.

    `superuser` is in a transaction; all changes of the calls are undone.
    """
    report = Report()
    foreign = await _ids(superuser, seeded.second)
    before = await _stock(superuser, seeded.second)
    async for attack in _attacks(superuser, seeded, sorted(foreign)):
        if only == attack.function and report.faults:
            break
        if only in (None, attack.function):
            report.aims[attack.aim] = report.aims.get(attack.aim, 0) + 1
            fault = await _try(superuser, attack, seeded, foreign, before)
            if fault is not None:
                report.faults.append(f"{attack.function}, {attack.aim}: {fault}: {attack.call[:300]}")
    return report


async def _attacks(superuser: Connection, seeded: Seeded, foreign: Sequence[str]) -> AsyncIterator[Attack]:
    for function in await superuser.fetch(FUNCTIONS):
        name, names, types = function["name"], function["names"] or [], function["types"]
        base = [VALUES.get(n, DEFAULTS.get(t)) for n, t in zip(names, types, strict=True)]
        missing = [f"{n} {t}" for n, t, value in zip(names, types, base, strict=True) if value is None]
        assert not missing, f"add a value to attacks.py for {', '.join(missing)} of {name}"
        own, call = str(seeded.first), f"{name}({', '.join(map(str, base))})"
        yield Attack(name, call, own, "own tenant")
        if name.startswith("keyword."):
            yield Attack(name, call, NO_TENANT, "tenant without entries")
        for setting in (None, "never", "*", "' or true --", "00000000-0000-0000-0000-00000000000g", f"{own} "):
            yield Attack(name, call, setting, "no tenant")
        for place, (argument, kind) in enumerate(zip(names, types, strict=True)):
            for aim, value in await _variants(superuser, argument, kind, foreign):
                arguments = [*base[:place], value, *base[place + 1 :]]
                yield Attack(name, f"{name}({', '.join(map(str, arguments))})", own, aim)


async def _variants(superuser: Connection, argument: str, kind: str, foreign: Sequence[str]) -> list[tuple[str, str]]:
    """Values for one argument, each with its aim; for a composite type, each field in turn."""
    fields = await superuser.fetch(FIELDS, kind)
    if not fields:
        return list(_scalars(kind, foreign))
    return [
        (aim, f"jsonb_populate_record(null::{kind}, jsonb_build_object('{f['name']}', {value}))")
        for f in fields
        for aim, value in _scalars(f["type"], foreign)
    ]


def _scalars(kind: str, foreign: Sequence[str]) -> Iterator[tuple[str, str]]:
    if kind == "uuid":
        yield from (("foreign id", f"'{i}'::uuid") for i in foreign)
    elif kind == "uuid[]":
        yield "foreign id", "'{" + ",".join(foreign) + "}'::uuid[]"
        yield from (("foreign id", f"array['{i}']::uuid[]") for i in foreign)
    elif kind in ("text", "text[]", "jsonb"):
        for text in (*HOSTILE, *foreign[:3]):
            quoted = "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
            match kind:
                case "text":
                    yield "hostile text", f"{quoted}::text"
                case "text[]":
                    yield "hostile text", f"array[{quoted}, 'harbour', {quoted}]::text[]"
                case _:
                    yield "hostile text", f"jsonb_build_object({quoted}::text, {quoted}::text)"
    yield from (("extreme number", value) for value in EXTREMES.get(kind, ()))


async def _try(
    superuser: Connection, attack: Attack, seeded: Seeded, foreign: set[str], before: tuple[int, ...]
) -> str | None:
    across = attack.function in ACROSS_TENANTS
    await superuser.execute("savepoint attack")
    try:
        if attack.setting != "never":
            await superuser.execute("select set_config('app.current_tenant', $1, true)", attack.setting or "")
        await superuser.execute(f"set local role {ROLE}")
        rows = [r[0] for r in await superuser.fetch(f"select to_jsonb(r)::text from {attack.call} r")]
        await superuser.execute("reset role")
        left = await superuser.fetchval("select current_setting('app.current_tenant', true)")
        after = await _stock(superuser, seeded.second)
    except asyncpg.PostgresError as error:
        return _judge_error(error)
    finally:
        await superuser.execute("rollback to savepoint attack")
    text = " ".join(r for r in rows if r)
    meant = attack.function == "tenancy.delete_tenant" and str(seeded.second) in attack.call
    if after != before and not meant:
        return "changed what the other tenant has"
    if left not in ("", None, attack.setting):
        return "left another tenant set"
    if across:
        return "disclosed content" if "harbour" in text.lower() and "list" not in attack.function else None
    if attack.aim == "no tenant" and attack.setting != f"{seeded.first} " and any(rows):
        return "answered without a tenant"
    if attack.aim == "tenant without entries" and any(r not in (None, "null", "[]") for r in rows):
        return "found something where nothing is"
    if any(int(n) > before[0] for n in re.findall(r'"candidates": (\d+)', text)):
        return "counted more entries than the tenant has"
    # Words that no entry has are returned as unknown, whatever they look like.
    echoed = attack.call if attack.aim == "hostile text" else ""
    return "gave another tenant's ids" if any(i in text and i not in echoed for i in foreign) else None


def _judge_error(error: asyncpg.PostgresError) -> str | None:
    """Invalid data and missing rights are refused; any other error means that a text was interpreted as code."""
    state = str(error.sqlstate)
    if state[:2] in ("22", "23", "54") or state == "42501" or (state == "42601" and MALFORMED.search(str(error))):
        return None
    return f"failed with {state} {error}"


async def _ids(superuser: Connection, tenant: UUID) -> set[str]:
    """Every id that the tenant has anywhere."""
    columns = await superuser.fetch("""
        select c.oid::regclass::text as place, a.attname as name from pg_class c
          join pg_attribute a on a.attrelid = c.oid and a.atttypid = 'uuid'::regtype and not a.attisdropped
          join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition""")
    no_owner = {str(UUID(int=0)), "None"}
    found = [
        await superuser.fetch(f"select distinct {c['name']} from {c['place']} where tenant_id = $1", tenant)
        for c in columns
    ]
    return {str(row[0]) for row in itertools.chain(*found)} - no_owner


async def _stock(superuser: Connection, tenant: UUID) -> tuple[int, ...]:
    row = await superuser.fetchrow(
        "select (select count(*) from entries where tenant_id = $1),"
        " (select count(*) from assets where tenant_id = $1),"
        " (select count(*) from jobs where tenant_id = $1), (select count(*) from tenants where id = $1),"
        " (select sum(version) from entries where tenant_id = $1)",
        tenant,
    )
    assert row is not None
    return tuple(row)
