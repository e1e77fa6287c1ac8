"""Rules that every table and function of the schema must keep, read from the catalog."""

from collections.abc import AsyncIterator

import pytest

from app.embedded import EmbeddedAddress
from tests.fixtures.database.cluster import PARTITIONS, Connection, connected, new_database

DEFINER_FUNCTIONS = {
    "tenancy.list_tenants": "kb_migrator",
    "tenancy.create_tenant": "kb_migrator",
    "tenancy.delete_tenant": "kb_migrator",
    "tenancy.note_action": "kb_migrator",
    "tenancy.change_limits": "kb_migrator",
    "tenancy.list_revoked_tokens": "kb_migrator",
    "tenancy.revoke_token": "kb_migrator",
    "tenancy.create_vector_index": "kb_migrator",
    "tenancy.drop_vector_index": "kb_migrator",
    "tenancy.outdated_statistics": "kb_migrator",
    "tenancy.analyze_table": "kb_migrator",
    "tenancy.take_turns": "kb_migrator",
    "tenancy.prune_audit": "kb_migrator",
    "tenancy.pseudonymise_actor": "kb_migrator",
    "public.index_words": "kb_migrator",
    "keyword.search": "kb_keyword",
    "keyword.matched_queries": "kb_keyword",
    "keyword.entries_with_parts": "kb_keyword",
    "keyword.filtered_ids": "kb_keyword",
    "keyword.newest_ids": "kb_keyword",
    "keyword.tag_overlaps": "kb_keyword",
    "keyword.derived_entries": "kb_keyword",
    "keyword.matching_entries": "kb_keyword",
    "keyword.former_ids": "kb_keyword",
    "queue.claim_job": "kb_queue",
    "queue.next_due": "kb_queue",
    "queue.count_jobs": "kb_queue",
}
CALLERS = ("kb_reader", "kb_creator", "kb_admin")
"""The roles of callers' paths; the login role may switch to them."""
OURS = "n.nspname in ('public', 'tenancy', 'keyword', 'queue')"
NOT_OF_AN_EXTENSION = "not exists (select from pg_depend d where d.objid = {}.oid and d.deptype = 'e')"


@pytest.fixture(scope="module")
async def catalog(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Connection]:
    """The catalog as superuser."""
    async with new_database(cluster, template=template) as made, connected(made.superuser_dsn) as connection:
        yield connection


async def names(catalog: Connection, sql: str) -> set[str]:
    return {row[0] for row in await catalog.fetch(sql)}


async def test_every_table_with_a_tenant_forces_row_level_security(catalog: Connection) -> None:
    tables = await catalog.fetch("""
        select c.oid::regclass::text as name, c.relrowsecurity and c.relforcerowsecurity as forced
          from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
         where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace""")
    assert len(tables) >= 13 + 2 * PARTITIONS
    assert [t["name"] for t in tables if not t["forced"]] == []


async def test_every_table_without_a_tenant_is_known(catalog: Connection) -> None:
    """A new table has a tenant_id, or is added here after its readers have been considered."""
    assert await names(
        catalog,
        """select c.relname from pg_class c where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
            and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')""",
    ) == {
        *("alembic_version", "embedding_models", "tenants", "platform_audit"),
        *("revoked_platform_tokens", "send_turns", "tenant_slugs"),
    }
    assert await catalog.fetchval("select relrowsecurity from pg_class where relname = 'tenants'")


async def test_every_key_of_a_tenant_table_starts_with_the_tenant(catalog: Connection) -> None:
    unique = await names(
        catalog,
        """select i.indexrelid::regclass::text from pg_index i
             join pg_class c on c.oid = i.indrelid and c.relnamespace = 'public'::regnamespace
             join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
            where i.indisunique and i.indkey[0] <> t.attnum""",
    )
    foreign = await names(
        catalog,
        """select k.conrelid::regclass || '.' || k.conname from pg_constraint k
             join pg_attribute t on t.attrelid = k.conrelid and t.attname = 'tenant_id'
             left join pg_attribute r on r.attrelid = k.confrelid and r.attname = 'tenant_id'
            where k.contype = 'f' and k.confrelid <> 'embedding_models'::regclass
              and (k.conkey[1] <> t.attnum
                   or (k.confrelid <> 'tenants'::regclass and k.confkey[1] is distinct from r.attnum))""",
    )
    assert unique == set()
    assert foreign == set()


@pytest.mark.parametrize(
    "query",
    [
        """select i.indexrelid::regclass::text from pg_index i
             join pg_attribute t on t.attrelid = i.indrelid and t.attname = 'tenant_id'
            where i.indrelid = 'entries'::regclass and i.indkey[0] <> t.attnum""",
        f"""select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace and {OURS}
             where has_function_privilege('public', p.oid, 'execute') and {NOT_OF_AN_EXTENSION.format("p")}""",
        # A view runs with its owner's rights. A view that is needed must be security_invoker, and is added here.
        f"""select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace and {OURS}
             where c.relkind in ('v', 'm') and not coalesce('security_invoker=true' = any (c.reloptions), false)
               and {NOT_OF_AN_EXTENSION.format("c")}""",
    ],
    ids=["an index on entries that does not start with the tenant", "a public function", "a view or a rule"],
)
async def test_the_schema_has_none(catalog: Connection, query: str) -> None:
    assert await names(catalog, query) == set()


async def test_only_one_policy_shows_rows_of_all_tenants_for_reading(catalog: Connection) -> None:
    policies = await catalog.fetch("""
        select p.polname as name, p.polrelid::regclass::text as "table", p.polcmd::text as command,
               pg_get_expr(p.polqual, p.polrelid) as condition, pg_get_expr(p.polwithcheck, p.polrelid) as checked,
               (select string_agg(r.rolname, ' ' order by r.rolname) from pg_roles r
                 where r.oid = any (p.polroles)) as roles, p.polpermissive as permissive
          from pg_policy p""")
    # Those of readers and writers only narrow the others.
    narrowing = {"readers", *(f"writers_{verb}" for verb in ("insert", "update", "delete"))}
    assert {p["name"] for p in policies if not p["permissive"]} == narrowing
    assert all(p["roles"] for p in policies), "a policy without a named role applies to all roles"
    policies = [p for p in policies if p["permissive"]]
    assert sorted((p["table"], p["name"], p["command"], p["roles"]) for p in policies if p["condition"] == "true") == [
        (table, "keyword_search", "r", "kb_keyword") for table in ("entries", "former_entries")
    ]
    free = {p["name"] for p in policies if "current_tenant()" not in (p["condition"] or "")}
    assert free == {"keyword_search", "queue_select", "queue_update"}
    for policy in policies:
        if policy["name"].startswith("queue_"):
            assert (policy["table"], policy["roles"]) == ("jobs", "kb_queue")
        elif policy["name"] != "keyword_search":
            assert policy["roles"].split() in (["kb_migrator", "kb_reader"], ["kb_reader"])
            assert "current_tenant()" in policy["checked"]
            # A subquery runs once for each statement, not once for each row.
            assert "( SELECT current_tenant()" in policy["condition"]


async def test_rights_beyond_reading_and_writing_rows_are_not_granted(catalog: Connection) -> None:
    granted = await catalog.fetch(f"""
        select c.oid::regclass::text as name, coalesce(r.rolname, 'public') as grantee, a.privilege_type as privilege
          from pg_class c join pg_namespace n on n.oid = c.relnamespace and {OURS}
         cross join lateral aclexplode(c.relacl) a left join pg_roles r on r.oid = a.grantee
         where a.grantee <> c.relowner and {NOT_OF_AN_EXTENSION.format("c")}""")
    assert {g["grantee"] for g in granted} == {*CALLERS, "kb_app", "kb_keyword", "kb_queue"}
    assert {g["privilege"] for g in granted} == {"SELECT", "INSERT", "UPDATE", "DELETE"}
    assert {(g["name"], g["privilege"]) for g in granted if g["grantee"] == "kb_keyword"} == {
        ("entries", "SELECT"),
        ("former_entries", "SELECT"),
    }
    assert {(g["name"], g["privilege"]) for g in granted if g["grantee"] == "kb_queue"} == {("jobs", "SELECT")}


async def test_functions_that_cross_tenants_are_the_known_ones(catalog: Connection) -> None:
    functions = await catalog.fetch(f"""
        select n.nspname || '.' || p.proname as name, p.proowner::regrole::text as owner, p.proconfig as config
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where p.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')
           and {NOT_OF_AN_EXTENSION.format("p")}""")
    assert {f["name"]: f["owner"] for f in functions} == DEFINER_FUNCTIONS
    for function in functions:
        (path,) = [c for c in function["config"] or () if c.startswith("search_path=")]
        assert path.startswith("search_path=pg_catalog"), function["name"]
        assert path.endswith("pg_temp"), f"{function['name']}: temporary objects must come last"


async def test_only_the_owner_creates_objects_in_our_schemas(catalog: Connection) -> None:
    for schema in ("public", "tenancy", "keyword", "queue"):
        for role in ("public", *CALLERS, "kb_app", "kb_service", "kb_keyword", "kb_queue"):
            assert not await catalog.fetchval("select has_schema_privilege($1, $2, 'create')", role, schema), (
                f"{role} may create in {schema}"
            )


async def test_roles_have_no_way_around_the_policies(catalog: Connection) -> None:
    roles = await catalog.fetch("select * from pg_roles where rolname like 'kb\\_%'")
    assert {r["rolname"] for r in roles} == {
        *CALLERS,
        *("kb_app", "kb_keyword", "kb_queue", "kb_migrator", "kb_service"),
    }
    assert not any(r["rolsuper"] or r["rolbypassrls"] or r["rolreplication"] for r in roles)
    assert {r["rolname"] for r in roles if r["rolcanlogin"]} == {"kb_migrator", "kb_service"}
    assert await names(
        catalog, "select roleid::regrole::text from pg_auth_members where member = 'kb_service'::regrole"
    ) == {"kb_app"}


async def test_the_tenant_function_is_not_folded_into_plans(catalog: Connection) -> None:
    """An immutable function would be folded, and a cached plan would then show another tenant's rows."""
    assert await catalog.fetchval("select provolatile::text from pg_proc where proname = 'current_tenant'") == "s"
