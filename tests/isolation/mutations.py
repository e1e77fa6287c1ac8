"""Ways to break the isolation of tenants, each with the guards that must detect it: the gate, the matrix, or the
attacks.

SQL runs as superuser in a transaction that is undone.
"""

from dataclasses import replace
from uuid import UUID

from tests.fixtures.database.cluster import PARTITIONS
from tests.isolation.mutation import Mutation, both, function_body, gate, unfiltered
from tests.isolation.mutations_of_the_server import DEFINITIONS, SERVER

OWN = "tenant_id = (select current_tenant())"
SETTING = "nullif(pg_catalog.current_setting('app.current_tenant', true), '')::uuid"
NOTES = "create table notes (entry_id uuid not null, note text)"
OURS = "alter table notes owner to kb_migrator"
HNSW = "create index {} on embeddings_p01 using hnsw ((embedding::halfvec(16)) halfvec_cosine_ops) where {};"
VIEW = "create view public.all_entries {} as select * from entries; grant select on all_entries to kb_app"
COUNT = "'select count(*) from public.entries'"
DEFINER = "create function {}() returns bigint language sql security definer {} as " + COUNT
SAFE_PATH = "set search_path = pg_catalog, public, pg_temp"
CALLED = "revoke all on function {0}() from public; grant execute on function {0}() to kb_app"
MUTATIONS = (
    # Row-level security and policies.
    both("a policy is dropped", "drop policy tenant_isolation on entries", "entries"),
    both("a policy of a small table is dropped", "drop policy tenant_isolation on jobs", "jobs"),
    gate("force is lifted", "alter table entries no force row level security"),
    gate("force is lifted from a partition", "alter table entries_p02 no force row level security"),
    both("row-level security is off", "alter table entries disable row level security", "entries"),
    both("row-level security of tenants is off", "alter table tenants disable row level security", "tenants"),
    gate("row-level security of a partition is off", "alter table embeddings_p03 disable row level security"),
    both(
        "a partition is open",
        "do $$ declare place text; begin for place in select relid::text from pg_partition_tree('entries') where isleaf"
        " loop execute format('alter table %s disable row level security', place);"
        " execute format('grant select on %s to kb_app', place); end loop; end $$",
        *(f"entries_p{n:02}" for n in range(PARTITIONS)),
    ),
    both("a permissive policy", "create policy extra on assets for select to kb_app using (true)", "assets"),
    both("a permissive policy for public", "create policy extra on assets using (true)", "assets"),
    both(
        "a permissive policy for another role",
        "create policy extra on assets for delete to kb_service using (name is not null)",
        "assets",
    ),
    gate("a policy for public", "alter policy tenant_isolation on audit to public"),
    both("a wide condition", "alter policy tenant_isolation on audit using (true)", "audit"),
    both(
        "an unset tenant sees all",
        f"alter policy tenant_isolation on jobs using ({OWN} or current_tenant() is null)",
        "jobs",
    ),
    both("a wide check", "alter policy tenant_isolation on searches with check (true)", "searches"),
    both("a wide policy of tenants", "alter policy own_tenant on tenants using (true)", "tenants"),
    gate("the keyword policy for another role", "alter policy keyword_search on entries to kb_keyword, kb_queue"),
    both("the keyword policy for the application", "alter policy keyword_search on entries to kb_app", "entries"),
    both("the queue's policy for the application", "alter policy queue_select on jobs to kb_app", "jobs"),
    gate(
        "a new table without row-level security",
        "create table notes (tenant_id uuid not null, note text); alter table notes owner to kb_migrator",
    ),
    both(
        "a new table that the application reads",
        "create table notes (tenant_id uuid not null, note text);"
        " insert into notes select id, 'note' from tenants; grant select on notes to kb_app",
        "notes",
    ),
    both("a table without a tenant that the application reads", f"{NOTES}; grant select on notes to kb_app"),
    both("one column of such a table", f"{NOTES}; grant select (note) on notes to kb_app"),
    both("writing to such a table", f"{NOTES}; grant insert on notes to kb_app"),
    both("such a table of ours for the service alone", f"{NOTES}; {OURS}; grant select on notes to kb_service"),
    both("such a table in partitions", f"{NOTES} partition by hash (entry_id); grant select on notes to kb_app"),
    gate(
        "such a table of ours in another schema",
        f"{NOTES}; {OURS}; grant select on notes to kb_app; alter table notes set schema queue",
    ),
    both(
        "a materialised view without a tenant",
        "create materialized view titles as select id, title from entries; grant select (title) on titles to kb_app",
    ),
    both("models can be removed", "grant delete on embedding_models to kb_app"),
    both("models can be renamed", "grant update (name) on embedding_models to kb_app"),
    gate(
        "a new partition without row-level security",
        "create table parted (tenant_id uuid) partition by hash (tenant_id);"
        " alter table parted owner to kb_migrator;"
        " alter table parted enable row level security, force row level security;"
        f" create policy tenant_isolation on parted to kb_app using ({OWN}) with check ({OWN});"
        " create table part partition of parted for values with (modulus 1, remainder 0);"
        " alter table part owner to kb_migrator",
    ),
    gate("a rule", "create rule copy as on insert to feedback do also notify jobs"),
    # The tenant itself.
    function_body("an immutable tenant", SETTING, "immutable"),
    function_body("a tenant by default", f"coalesce({SETTING}, (select min(id::text)::uuid from public.tenants))"),
    gate(
        "a tenant set for the role",
        "alter role kb_service set app.current_tenant = '00000000-0000-0000-0000-000000000001'",
    ),
    gate(
        "a tenant set for the database",
        "do $$ begin execute format('alter database %I set app.current_tenant = %L',"
        " current_database(), gen_random_uuid()); end $$",
    ),
    # Keys.
    gate("a unique index across tenants", "create unique index one on assets (sha256, tenant_id)"),
    gate(
        "a primary key without the tenant",
        "create table notes (id uuid primary key, tenant_id uuid not null);"
        " alter table notes enable row level security, force row level security;"
        " alter table notes owner to kb_migrator;"
        f" create policy tenant_isolation on notes to kb_app using ({OWN}) with check ({OWN})",
    ),
    gate(
        "a primary key that ends with the tenant",
        "alter table saved_searches drop constraint saved_searches_pkey cascade, add primary key (id, tenant_id)",
    ),
    gate(
        "a foreign key without the tenant",
        "alter table assets add constraint one unique (id);"
        " alter table searches add constraint stray foreign key (id) references assets (id) not valid",
    ),
    gate(
        "a foreign key from elsewhere",
        "alter table assets add constraint one unique (id); create table elsewhere (id uuid references assets (id))",
    ),
    # Views and rights.
    gate("an index of vectors that tenants share", HNSW.format("shared", "in_index")),
    gate(
        "an index of vectors with the name of another tenant",
        HNSW.format(
            f"embeddings_hnsw_1_{UUID(int=1).hex}", f"tenant_id = '{UUID(int=2)}'::uuid and model_id = 1 and in_index"
        ),
    ),
    gate(
        "an index of the vectors of a tenant and others",
        HNSW.format(
            f"embeddings_hnsw_1_{UUID(int=1).hex}",
            f"(tenant_id = '{UUID(int=1)}'::uuid and model_id = 1 and in_index) or passage = 0",
        ),
    ),
    gate("a view", VIEW.format("")),
    gate("a view that is not quite security_invoker", VIEW.format("with (security_invoker = false)")),
    gate(
        "a materialised view",
        "create materialized view all_entries as select * from entries; grant select on all_entries to kb_app",
    ),
    gate(
        "a view of another role in another schema",
        "create schema reports; create view reports.all_jobs as select * from public.jobs",
    ),
    gate("TRUNCATE", "grant truncate on entries to kb_app"),
    gate("TRUNCATE of a partition", "grant truncate on entries_p00 to kb_service"),
    gate("REFERENCES", "grant references on assets to kb_app"),
    gate("REFERENCES of one column", "grant references (id) on assets to kb_app"),
    gate("TRIGGER", "grant trigger on assets to kb_app"),
    gate("rights for public", "grant select on entries to public"),
    gate("more rights for the keyword functions", "grant select on assets to kb_keyword"),
    gate("more rights for the queue", "grant update (subject) on jobs to kb_queue"),
    gate("the audit trail can be changed", "grant update on audit to kb_app"),
    gate("the audit trail can be emptied", "grant delete on audit to kb_service"),
    gate("tenants can be created", "grant insert on tenants to kb_app"),
    gate("tenants can be renamed", "grant update (slug) on tenants to kb_app"),
    both("the platform's trail can be read", "grant select on platform_audit to kb_app"),
    gate("public creates in public", "grant create on schema public to public"),
    gate("the application creates in keyword", "grant create on schema keyword to kb_app"),
    gate("the keyword functions' owner creates", "grant create on schema keyword to kb_keyword"),
    # Roles.
    both("BYPASSRLS", "alter role kb_service bypassrls", "entries"),
    gate("BYPASSRLS of the keyword role", "alter role kb_keyword bypassrls"),
    both("a superuser", "alter role kb_service superuser", "jobs"),
    gate("replication", "alter role kb_service replication"),
    gate("a login for the queue's role", "alter role kb_queue login"),
    both("a member of the keyword role", "grant kb_keyword to kb_service", "entries"),
    gate("a member of the owner", "grant kb_migrator to kb_service with inherit false"),
    gate("a member that runs programs", "grant pg_execute_server_program to kb_service"),
    both(
        "the service owns a table",
        "alter table searches owner to kb_service; alter table searches no force row level security",
        "searches",
    ),
    # Functions that run with their owner's rights.
    gate("a function for public", "grant execute on function queue.claim_job(text[], interval) to public"),
    gate("a function of ours for public", "grant execute on function current_tenant() to public"),
    gate("no search_path", "alter function keyword.filtered_ids(entry_filter, integer) reset search_path"),
    gate(
        "a search_path that begins elsewhere",
        "alter function tenancy.list_tenants() set search_path = public, pg_catalog, pg_temp",
    ),
    gate(
        "a search_path without pg_temp at its end",
        "alter function keyword.tag_overlaps(text[], uuid, integer) set search_path = pg_catalog, public",
    ),
    gate(
        "a search_path through the caller's schema",
        'alter function tenancy.list_tenants() set search_path = pg_catalog, "$user", pg_temp',
    ),
    gate(
        "a function of a stronger owner", "alter function keyword.filtered_ids(entry_filter, integer) owner to postgres"
    ),
    Mutation(
        "another function",
        f"{DEFINER.format('public.count_all', SAFE_PATH)}; {CALLED.format('public.count_all')}",
        frozenset({"gate", "attacks"}),
        function="public.count_all",
    ),
    gate(
        "another function elsewhere",
        f"create schema elsewhere; grant usage on schema elsewhere to kb_app;"
        f" {DEFINER.format('elsewhere.count_all', SAFE_PATH)}",
    ),
    gate("a trigger that runs as its owner", "alter function count_entries() security definer"),
    unfiltered("keyword.filtered_ids", "e.tenant_id = $1"),
    unfiltered("keyword.tag_overlaps", "e.tenant_id = tenant"),
    unfiltered("keyword.derived_entries", "e.tenant_id = tenant"),
    unfiltered("keyword.matching_entries", "e.tenant_id = tenant"),
    unfiltered("keyword.search", "tenant_id = tenant", "tenant_id is not null"),
    unfiltered("keyword.matched_queries", "e.tenant_id = tenant", "e.tenant_id is not null"),
    unfiltered("keyword.entries_with_parts", "e.tenant_id = tenant", "e.tenant_id is not null"),
    # The hits themselves stay the tenant's own here: their number reveals the fault.
    unfiltered(
        "keyword.search",
        "wanted is not null and w.tenant_id = tenant and w.lexemes @@ wanted",
        "wanted is not null and w.lexemes @@ wanted",
    ),
    replace(
        unfiltered("keyword.required_tenant", "if tenant is null then", "if false then"),
        function="keyword.filtered_ids",
    ),
    *DEFINITIONS,
    *SERVER,
)
