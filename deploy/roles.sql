-- Prepares a Postgres (16 or newer, with pgvector 0.8 or newer) for the knowledge service.
--
-- Works on managed servers without superuser access (RDS, Cloud SQL, Supabase) and on your own. Run it once, in the
-- database that the service will use, as the administrator that the provider gave you; that role needs CREATEROLE
-- and must own the database, or belong to the role that does. Running it again is harmless: it sets the passwords again.
--
--   export PGHOST=… PGUSER=… PGPASSWORD=… PGDATABASE=knowledge MIGRATOR_PASSWORD=… SERVICE_PASSWORD=…
--   deploy/roles.sh
--
-- or, with any other client, replace :'migrator_password' and :'service_password' and run this file. A SCRAM-SHA-256
-- verifier may replace a password, so that no plain password reaches the server's log.
--
-- Afterwards:
--
--   DATABASE_ADMIN_URL=postgresql://kb_migrator:…@host/knowledge  knowledge migrate --service-role kb_service
--   DATABASE_URL=postgresql://kb_service:…@host/knowledge         knowledge serve
--
-- Roles
--   kb_migrator  logs in for migrations only; owns schemas, tables and most functions, and creates these six,
--                none of which can log in:
--     kb_reader    what callers of paths for readers may do; every tenant policy names it
--     kb_creator   the same for paths that write knowledge; a member of kb_reader
--     kb_admin     the same for the administration of a tenant; a member of kb_creator
--     kb_app       the rights of the service's own work, also across tenants; a member of kb_admin
--     kb_keyword   owns the keyword functions, which filter by tenant themselves
--     kb_queue     owns claim_job, which hands out jobs of all tenants
--   kb_service   the service's login: owns nothing, and has only the rights that it inherits from kb_app once
--                `knowledge migrate --service-role kb_service` (or: grant kb_app to kb_service) has run
-- Neither of the two is a superuser or has BYPASSRLS; the service refuses to start with such a role.
--
-- btree_gin and pg_trgm are trusted extensions, created by the migrations. vector is not: if the next
-- statement is refused, run it in the provider's console or as a superuser, then run this file again.

create extension if not exists vector;

do $$
begin
  if current_setting('server_version_num')::int < 160000 then
    raise exception 'Postgres 16 or newer is required, this is %', current_setting('server_version');
  end if;
  -- Other attributes keep their defaults: no superuser, no replication, no BYPASSRLS.
  if not exists (select from pg_roles where rolname = 'kb_migrator') then
    create role kb_migrator login createrole;
  end if;
  if not exists (select from pg_roles where rolname = 'kb_service') then
    create role kb_service login inherit;
  end if;
  if exists (select from pg_roles where rolname in ('kb_migrator', 'kb_service') and (rolsuper or rolbypassrls)) then
    raise exception 'kb_migrator or kb_service already exists and is a superuser or has BYPASSRLS';
  end if;
  -- CREATE on the database: for its schemas, and the trusted extensions.
  execute format('grant connect, create, temporary on database %I to kb_migrator', current_database());
  execute format('grant connect on database %I to kb_service', current_database());
  -- The service needs no temporary tables. Grant TEMPORARY to the other roles of a shared database that do.
  execute format('revoke temporary on database %I from public', current_database());
end $$;

-- Large objects belong to no tenant. Only a superuser can close the server's functions that create them.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    revoke execute on function lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) from public;
  end if;
end $$;

alter role kb_migrator password :'migrator_password';
alter role kb_service password :'service_password';

-- The tables are in public. No other role may create there: functions that run with their owner's rights search it.
grant usage, create on schema public to kb_migrator;
revoke create on schema public from public;
grant usage on schema public to kb_service;

comment on role kb_migrator is 'Knowledge service: owns the schema, logs in for migrations only';
comment on role kb_service is 'Knowledge service: login of the API and the worker';

-- Postgres only warns about a grant that the current role may not make, so check the result.
do $$
begin
  if not has_database_privilege('kb_migrator', current_database(), 'create')
    or not has_schema_privilege('kb_migrator', 'public', 'create') then
    raise exception 'kb_migrator may not create in this database: run this file as the role that owns it';
  end if;
  if has_schema_privilege('kb_service', 'public', 'create') then
    raise exception 'kb_service may create in schema public: run this file as the role that owns the schema';
  end if;
end $$;
