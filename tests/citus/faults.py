"""Changes of a worker that take a protection away, each with the fault that the catalog gate must find."""

BARE = "tenant_id = public.current_tenant()"
WRAPPED = "tenant_id = (select public.current_tenant())"
CHANGED = "do $do$ begin execute replace(pg_get_functiondef('{}'::regprocedure), {}); end $do$"
FILTERED = "keyword.filtered_ids_{group}(entry_filter, integer)"
DEFINER = "language sql security definer set search_path = pg_catalog, public, pg_temp"

MUTATIONS = {
    "a policy of a shard is dropped": ("drop policy tenant_isolation on {entries}", "table {entries} has no policy"),
    "force is lifted from a shard": (
        "alter table {entries} no force row level security",
        "table {entries} has row-level security that its owner is free of",
    ),
    "row-level security of a shard is off": (
        "alter table {jobs} disable row level security",
        "table {jobs} has row-level security switched off",
    ),
    "row-level security of a shard of tenants is off": (
        "alter table {tenants} disable row level security",
        "table {tenants} has row-level security switched off",
    ),
    "a wide condition": (
        "alter policy tenant_isolation on {assets} using (true)",
        "policy tenant_isolation on {assets} shows rows of other tenants",
    ),
    "a wide check": (
        "alter policy tenant_isolation on {assets} with check (true)",
        "policy tenant_isolation on {assets} shows",
    ),
    "an unset tenant sees all": (
        f"alter policy tenant_isolation on {{jobs}} using ({BARE} or public.current_tenant() is null)",
        "policy tenant_isolation on {jobs} shows",
    ),
    "a wide policy of tenants": (
        "alter policy own_tenant on {tenants} using (true)",
        "policy own_tenant on {tenants} shows",
    ),
    "a policy of tenants that compares another column": (
        "alter policy own_tenant on {tenants} using (model_id = 1)",
        "policy own_tenant on {tenants} shows",
    ),
    "a permissive policy": (
        "create policy extra on {audit} for select to kb_app using (true)",
        "policy extra on {audit} shows",
    ),
    "the keyword policy for another role": (
        "alter policy keyword_search on {entries} to kb_keyword, kb_queue",
        "policy keyword_search on {entries} shows",
    ),
    "the keyword policy on another table": (
        "create policy keyword_search on {assets} for select to kb_keyword using (true)",
        "policy keyword_search on {assets} shows",
    ),
    "a policy of readers of a shard is dropped": (
        "drop policy readers on {entries}",
        "policy readers on {entries} is missing or allows more",
    ),
    "a wide policy of readers of a shard": (
        "alter policy readers on {embeddings} using (true)",
        "policy readers on {embeddings} is missing or allows more",
    ),
    "a policy of writers that asks another group": (
        "alter policy writers_update on {embeddings} using (public.may_change_{other_group}(tenant_id, entry_id))",
        "policy writers_update on {embeddings} is missing or allows more",
    ),
    "a wide policy of readers of the node's own table": (
        "alter policy readers on sources using (true)",
        "policy readers on sources is missing or allows more",
    ),
    "a shard for every role": ("grant select on {entries} to public", "public may SELECT on {entries}"),
    "truncate of a shard": ("grant truncate on {entries} to kb_app", "kb_app may TRUNCATE on {entries}"),
    "the keyword role reads another table": (
        "grant select on {assets} to kb_keyword",
        "kb_keyword may SELECT on {assets}",
    ),
    "the queue changes more columns": (
        "grant update (subject) on {jobs} to kb_queue",
        "kb_queue may UPDATE (subject) on {jobs}",
    ),
    "the trail can be changed": ("grant update on {audit} to kb_app", "change the trail in {audit}"),
    "tenants can be added": ("grant insert on {tenants} to kb_app", "insert into or delete from {tenants}"),
    "limits can be changed": ("grant update (limits) on {tenants} to kb_app", "update columns of {tenants} other than"),
    "a copy of a reference table can be written": (
        "grant delete on {embedding_models} to kb_app",
        "the service may DELETE on {embedding_models}",
    ),
    "the list of groups can be changed": (
        "grant insert on shards.adopted to kb_app",
        "the service may INSERT on shards.adopted",
    ),
    "a function for every role": (
        "grant execute on function repeats_another(uuid, uuid, bytea, entry_filter) to public",
        "function repeats_another(uuid,uuid,bytea,entry_filter) may be executed by public",
    ),
    "a copy of a function for every role": (
        f"grant execute on function {FILTERED} to public",
        "function keyword.filtered_ids_{group}(entry_filter,integer) may be executed by public",
    ),
    "a copy of a function with another owner": (
        f"alter function {FILTERED} owner to kb_migrator",
        "function keyword.filtered_ids_{group}(entry_filter,integer) belongs to kb_migrator",
    ),
    "a copy of a function without its condition": (
        CHANGED.format(FILTERED, "'e.tenant_id = $1', 'true'"),
        "function keyword.filtered_ids_{group}(public.entry_filter,integer) differs from the function",
    ),
    "a copy that reads another group": (
        CHANGED.format(FILTERED, "'{entries}', '{other_entries}'"),
        "function keyword.filtered_ids_{group}(public.entry_filter,integer) differs from the function",
    ),
    "a copy of a group that does not exist, without its condition": (
        CHANGED.format(FILTERED, "'{group}', '99999'")
        + "; alter function keyword.filtered_ids_99999 owner to kb_keyword;"
        + CHANGED.format(FILTERED.replace("{group}", "99999"), "'e.tenant_id = $1', 'true'"),
        "function keyword.filtered_ids_99999(public.entry_filter,integer) differs from the function",
    ),
    "a function that is named like a copy": (
        f"create function keyword.other_{{group}}() returns bigint {DEFINER}"
        " as 'select count(*) from public.{entries}'",
        "function keyword.other_{group}() runs with its owner's rights and is not one of the known ones",
    ),
    "a function of the nodes is changed": (
        "alter function shards.enter(bigint) security invoker",
        "function shards.enter(bigint) differs from its text in alembic/sql",
    ),
    "the service may create functions for the nodes": (
        "grant create on schema shards to kb_app",
        "kb_app may create in schema shards",
    ),
    "the tenant is another one": (
        "create or replace function current_tenant() returns uuid language sql stable return null::uuid",
        "function public.current_tenant() differs from its text",
    ),
    "a trigger of a shard is dropped": (
        "drop trigger count_inserted_{entries_id} on {entries}",
        "on the shard {entries}: trigger count_inserted of public.entries is missing",
    ),
    "a trigger of a shard runs another function": (
        "create or replace trigger count_inserted_{entries_id} after insert on {entries}"
        " referencing new table as added for each statement execute function public.count_tags()",
        "on the shard {entries}: trigger count_inserted of public.entries differs",
    ),
    "a trigger of a shard runs the function of another group": (
        "create or replace trigger count_inserted_{entries_id} after insert on {entries}"
        " referencing new table as added for each statement execute function public.count_entries_{other_group}()",
        "trigger count_inserted_{entries_id} on {entries} does not run the function of its group",
    ),
    "a copy of a trigger's function without its condition": (
        CHANGED.format("public.inherit_added_{group}()", "'is distinct from', '='"),
        "function public.inherit_added_{group}() differs from the function",
    ),
    "another trigger of a shard": (
        "create trigger extra after insert on {entries} for each row execute function public.clear_links()",
        "on the shard {entries}: trigger extra of public.entries is not in alembic/sql",
    ),
    "a trigger of a shard is disabled": (
        "alter table {entries} disable trigger count_inserted_{entries_id}",
        "trigger count_inserted_{entries_id} on {entries} is disabled",
    ),
    "a foreign key of a shard is dropped": (
        "do $do$ declare name text; begin select conname into name from pg_constraint"
        " where conrelid = '{jobs}'::regclass and contype = 'f';"
        " execute format('alter table {jobs} drop constraint %I', name); end $do$",
        "on the shard {jobs}: foreign key of public.jobs: FOREIGN KEY (tenant_id)",
    ),
    "a unique index over tenants": (
        "create unique index extra on {assets} (id)",
        "unique index extra does not start with tenant_id",
    ),
    "a vector index over tenants": (
        "create index extra on {embeddings} using hnsw ((embedding::halfvec(16)) halfvec_cosine_ops)",
        "index extra is not limited to the vectors of one tenant",
    ),
    "a view of a shard": (
        "create view everything as select * from {entries}; grant select on everything to kb_app",
        "view everything reads with its owner's rights",
    ),
    "a policy of the node's own table is dropped": (
        "drop policy tenant_isolation on entries",
        "table entries has no policy for kb_reader",
    ),
    "row-level security of the node's own table is off": (
        "alter table audit disable row level security",
        "table audit has row-level security switched off",
    ),
}
