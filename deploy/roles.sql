-- Prepares a Postgres (16 or newer, with pgvector 0.8 or newer) for the knowledge service.
--
-- For servers on which nobody is superuser (RDS, Cloud SQL, Supabase) as well as for your own. Run it once, in the
-- database that the service will use, as the administrator that the provider gave you; that role needs CREATEROLE
-- and has to own the database, or belong to the role that does. Running it again is harmless: it sets the passwords anew.
--
--   export PGHOST=… PGUSER=… PGPASSWORD=… PGDATABASE=knowledge MIGRATOR_PASSWORD=… SERVICE_PASSWORD=…
--   deploy/roles.sh
--
-- or, with any other client, this file after replacing :'migrator_password' and :'service_password'. A SCRAM-SHA-256
-- verifier may be given in place of a password, so that no plain one reaches the server's log.
--
-- Afterwards:
--
--   DATABASE_ADMIN_URL=postgresql://kb_migrator:…@host/knowledge  knowledge migrate --service-role kb_service
--   DATABASE_URL=postgresql://kb_service:…@host/knowledge         knowledge serve
--
-- Who is who
--   kb_migrator  logs in for migrations only; owns schemas, tables and most functions, and creates these three,
--                none of which can log in:
--     kb_app       the application's rights; every tenant policy speaks of it
--     kb_keyword   owns the keyword functions, which filter by tenant themselves
--     kb_queue     owns claim_job, which hands out jobs of all tenants
--   kb_service   what the service logs in as: owns nothing, and has no right but what it inherits from kb_app once
--                `knowledge migrate --service-role kb_service` (or: grant kb_app to kb_service) has been run
-- Neither of the two is superuser or has BYPASSRLS; the service refuses to start if its role is or has.
--
-- btree_gin and pg_trgm are trusted extensions, made by the migrations. vector is not: where the next
-- statement is refused, have it run by the provider's console or a superuser, then start this file again.

create extension if not exists vector;

do $$
begin
  if current_setting('server_version_num')::int < 160000 then
    raise exception 'Postgres 16 or newer is needed, this is %', current_setting('server_version');
  end if;
  -- Attributes that are not named stay at their defaults: no superuser, no replication, no BYPASSRLS.
  if not exists (select from pg_roles where rolname = 'kb_migrator') then
    create role kb_migrator login createrole;
  end if;
  if not exists (select from pg_roles where rolname = 'kb_service') then
    create role kb_service login inherit;
  end if;
  if exists (select from pg_roles where rolname in ('kb_migrator', 'kb_service') and (rolsuper or rolbypassrls)) then
    raise exception 'kb_migrator or kb_service exists already and is superuser or has BYPASSRLS';
  end if;
  -- CREATE on the database: schemas of its own, and the trusted extensions.
  execute format('grant connect, create, temporary on database %I to kb_migrator', current_database());
  execute format('grant connect on database %I to kb_service', current_database());
end $$;

alter role kb_migrator password :'migrator_password';
alter role kb_service password :'service_password';

-- The tables live in public. Nobody else may create there: functions that run with their owner's rights look it up.
grant usage, create on schema public to kb_migrator;
revoke create on schema public from public;
grant usage on schema public to kb_service;

comment on role kb_migrator is 'Knowledge service: owns the schema, logs in for migrations only';
comment on role kb_service is 'Knowledge service: what the API and the worker log in as';

-- A grant by somebody who may not give it is only a warning, so look at what came of it.
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
