"""Mutations of the text of functions, triggers and keys, and of roles, settings and the server."""

from tests.isolation.mutation import both, gate

COUNT = "'select count(*) from public.entries'"
DEFINER = "create function {}() returns bigint language sql security definer {} as " + COUNT
SAFE_PATH = "set search_path = pg_catalog, public, pg_temp"
CLOSED = "revoke all on function public.spare() from public"
STRANGE = (
    "create function stranger.copy() returns trigger language plpgsql security definer as 'begin return null; end';"
    " revoke all on function stranger.copy() from public"
)
STRANGE_TRIGGER = "create trigger copy after insert on {} for each row execute function stranger.copy()"
FOREIGN = (
    "create foreign data wrapper wrapper; create server server foreign data wrapper wrapper;"
    " create foreign table {} (content text) server server"
)
EVENT = "create function watch_commands() returns event_trigger language plpgsql as 'begin end'"

DEFINITIONS = (
    gate(
        "a trigger function with another body",
        "create or replace function count_tags() returns trigger language plpgsql"
        " set search_path = pg_catalog, public, pg_temp as 'begin return null; end'",
        "function public.count_tags() differs from its text in alembic/sql",
    ),
    gate(
        "a function is missing",
        "drop function tenancy.note_action(text, text, uuid, text)",
        "function tenancy.note_action(text,text,uuid,text) is missing",
    ),
    gate(
        "a function of ours is leakproof",
        "alter function entry_passes(entries, entry_filter) leakproof",
        "function public.entry_passes(public.entries,public.entry_filter)",
    ),
    gate(
        "an overload of a function",
        "create function current_tenant(jsonb) returns uuid language sql as 'select null::uuid';"
        " revoke all on function current_tenant(jsonb) from public",
        "function public.current_tenant(jsonb) is not in alembic/sql",
    ),
    gate(
        "another function in the schema keyword",
        "create function keyword.more() returns int language sql as 'select 1';"
        " revoke all on function keyword.more() from public",
        "function keyword.more() is not in alembic/sql",
    ),
    gate(
        "a definer function without callers",
        f"{DEFINER.format('public.spare', SAFE_PATH)}; {CLOSED}",
        "function spare() runs with its owner's rights and is not one of the",
    ),
    gate(
        "a trigger of a stranger",
        f"create schema stranger; {STRANGE}; {STRANGE_TRIGGER.format('assets')}",
        "trigger copy of public.assets is not in alembic/sql",
    ),
    gate(
        "a trigger of a stranger on a partition",
        f"create schema stranger; {STRANGE}; {STRANGE_TRIGGER.format('entries_p03')}",
        "trigger copy of public.entries_p03 is not in alembic/sql",
    ),
    gate(
        "a trigger is disabled",
        "alter table entries disable trigger words_inserted",
        "trigger words_inserted on entries is disabled",
    ),
    gate("triggers of foreign keys are disabled", "alter table jobs disable trigger all", "on jobs is disabled"),
    gate(
        "a trigger is missing", "drop trigger count_bytes on assets", "trigger count_bytes of public.assets is missing"
    ),
    gate(
        "a trigger with a condition",
        "drop trigger count_bytes on assets; create trigger count_bytes after insert on assets for each row"
        " when (new.byte_size > 0) execute function count_asset_bytes()",
        "trigger count_bytes of public.assets differs from its text in alembic/sql",
    ),
    gate(
        "a foreign key is missing",
        "alter table jobs drop constraint jobs_tenant_id_fkey",
        "foreign key of public.jobs: FOREIGN KEY (tenant_id)",
    ),
    gate(
        "a foreign key that no longer deletes",
        "alter table jobs drop constraint jobs_tenant_id_fkey,"
        " add constraint jobs_tenant_id_fkey foreign key (tenant_id) references tenants",
        "foreign key of public.jobs: FOREIGN KEY (tenant_id)",
    ),
)

SERVER = (
    gate("the service may create roles", "alter role kb_service createrole", "role kb_service may create roles"),
    gate(
        "the application's role may create databases", "alter role kb_app createdb", "role kb_app may create databases"
    ),
    *(
        gate(f"a member of {role}", f"grant {role} to kb_service with inherit false", f"is a member of {role}")
        for role in ("pg_monitor", "pg_maintain", "pg_signal_backend", "pg_read_all_stats", "pg_checkpoint")
    ),
    both("a member that reads all data", "grant pg_read_all_data to kb_app"),
    gate(
        "a member of an unknown role",
        "create role stranger; grant stranger to kb_service",
        "the service's role is a member of stranger",
    ),
    gate("the keyword role is a member", "grant kb_app to kb_keyword", "role kb_keyword is a member of kb_app"),
    gate(
        "the service gives the rights to others",
        "grant kb_app to kb_service with admin option",
        "the service's role may give the rights of kb_app to others",
    ),
    gate(
        "the service creates schemas",
        "do $$ begin execute format('grant create on database %I to kb_service', current_database()); end $$",
        "the service's role may create schemas in the database",
    ),
    gate(
        "triggers are off for the role",
        "alter role kb_service set session_replication_role = replica",
        "session_replication_role is set for kb_service from the start",
    ),
    gate(
        "triggers are off for the database",
        "do $$ begin execute format('alter database %I set session_replication_role = replica',"
        " current_database()); end $$",
        "session_replication_role is set for every role from the start",
    ),
    gate(
        "triggers are off",
        "set local session_replication_role = replica",
        "session_replication_role is replica: triggers and foreign keys do not apply",
    ),
    gate(
        "the service may switch triggers off",
        "grant set on parameter session_replication_role to kb_service",
        "kb_service may set session_replication_role",
    ),
    gate(
        "names lead elsewhere",
        "alter role kb_service set search_path = stranger, public",
        "search_path is set for kb_service from the start",
    ),
    gate(
        "a name leads elsewhere",
        "create schema stranger; create table stranger.jobs (); grant usage on schema stranger to kb_app;"
        " set local search_path = stranger, public",
        "the name jobs leads to stranger.jobs",
    ),
    gate(
        "limits can be changed",
        "grant update (limits) on tenants to kb_app",
        "the service may update columns of tenants other than name, settings",
    ),
    gate(
        "limits can be changed by the service",
        "grant update (limits, created_at) on tenants to kb_service",
        "the service may update columns of tenants other than name, settings",
    ),
    both("a foreign table", f"{FOREIGN.format('public.elsewhere')}; grant select on elsewhere to kb_app"),
    gate(
        "a foreign table in another schema",
        f"create schema stranger; {FOREIGN.format('stranger.elsewhere')};"
        " grant insert on stranger.elsewhere to kb_service",
        "the service may INSERT on stranger.elsewhere, where no policy keeps",
    ),
    gate(
        "a publication for all tables",
        "create publication everything for all tables",
        "publication everything sends rows of all tables to other servers",
    ),
    gate(
        "a publication of a table",
        "create publication part for table entries",
        "publication part sends rows of entries to other servers",
    ),
    gate(
        "a publication of a schema",
        "create publication part for tables in schema public",
        "publication part sends rows of",
    ),
    gate(
        "an event trigger at login",
        f"{EVENT}; create event trigger watch on login execute function watch_commands()",
        "event trigger watch runs watch_commands of postgres at login",
    ),
    gate(
        "an event trigger of a stranger",
        f"{EVENT}; alter function watch_commands() owner to kb_service;"
        " create event trigger watch on ddl_command_end execute function watch_commands()",
        "event trigger watch runs watch_commands of kb_service at ddl_command_end",
    ),
)
