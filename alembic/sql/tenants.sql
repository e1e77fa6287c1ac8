-- Embedding models, tenants, the audit trail of the platform, and the functions that act across tenants.

create or replace function current_tenant() returns uuid
language sql stable parallel safe
return nullif(pg_catalog.current_setting('app.current_tenant', true), '')::uuid;
revoke all on function current_tenant() from public;
grant execute on function current_tenant() to kb_reader, kb_keyword, kb_queue;
comment on function current_tenant() is
  'The tenant of this transaction; null when none is set. On a pooled connection the unset value is an empty string.';

create table embedding_models (
  id integer generated always as identity (maxvalue 32767) primary key,
  provider text not null,
  name text not null,
  dimensions integer not null check (dimensions between 1 and 4000),
  max_tokens integer not null check (max_tokens > 0),
  similarity_threshold double precision not null check (similarity_threshold between -1 and 1),
  created_at timestamptz not null default now(),
  paused_until timestamptz,
  centre double precision check (centre between -1 and 1),
  unique (provider, name, dimensions)
);
comment on column embedding_models.paused_until is 'Until then, no job that needs this model is handed out';
comment on column embedding_models.centre is
  'Mean cosine of the best hits of a tenant''s searches at which both legs get the same weight; null: not measured';
grant select on embedding_models to kb_reader;
grant update (paused_until) on embedding_models to kb_app;

grant select on alembic_version to kb_reader;

create table tenants (
  id uuid primary key,
  slug text not null check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name text not null check (length(name) between 1 and 200),
  model_id integer not null references embedding_models,
  settings jsonb not null default '{}' check (jsonb_typeof(settings) = 'object'),
  created_at timestamptz not null default now(),
  limits jsonb not null default '{}' check (jsonb_typeof(limits) = 'object')
);
comment on column tenants.limits is 'Limits of this tenant that override the platform defaults; 0 is unlimited';

-- Not FORCE: the functions of the schema tenancy belong to the owner, and list, create and delete tenants. The service
-- can read `limits` but not change that column: only tenancy.change_limits() does.
alter table tenants enable row level security;
create policy own_tenant on tenants to kb_reader
  using (/* one server */ id = (select current_tenant()) /* Citus: id = current_tenant() */)
  with check (/* one server */ id = (select current_tenant()) /* Citus: id = current_tenant() */);
grant select on tenants to kb_reader;
grant update (name, settings, model_id) on tenants to kb_admin;

-- Outlives the tenants in it, so its column is not named tenant_id, and no tenant can read it.
create table platform_audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  actor text not null,
  action text not null,
  subject_tenant uuid,
  detail jsonb not null default '{}',
  outcome text not null default 'done' check (outcome in ('done', 'refused'))
);

create schema tenancy;
grant usage on schema tenancy to kb_app;

-- In a cluster of Citus, the statements of these functions on tables of tenants run on its nodes. With
-- citus.propagate_set_commands, `set local` applies there too; set_config() does not. One server ignores that setting.

create or replace function tenancy.list_tenants()
returns table (id uuid, slug text, name text, model_id integer, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select id, slug, name, model_id, created_at from public.tenants order by created_at, id $$;
revoke all on function tenancy.list_tenants() from public;
grant execute on function tenancy.list_tenants() to kb_app;

create or replace function tenancy.create_tenant(p_id uuid, p_slug text, p_name text, p_model_id integer, p_actor text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into public.tenant_slugs (slug, tenant) values (p_slug, p_id);
  insert into public.tenants (id, slug, name, model_id) values (p_id, p_slug, p_name, p_model_id);
  insert into public.platform_audit (actor, action, subject_tenant, detail)
  values (p_actor, 'tenant.create', p_id, jsonb_build_object('slug', p_slug));
end $$;
revoke all on function tenancy.create_tenant(uuid, text, text, integer, text) from public;
grant execute on function tenancy.create_tenant(uuid, text, text, integer, text) to kb_app;

-- Foreign keys cascade to every table of the tenant. The tenant is set so that triggers on those tables, which run
-- under row-level security, find its rows. Then every table with a tenant_id is checked, including tables created later:
-- if one still has a row of the tenant, the whole deletion fails.
create or replace function tenancy.delete_tenant(p_id uuid, p_actor text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  deleted_slug text;
  place regclass;
  remains boolean;
begin
  perform set_config('citus.propagate_set_commands', 'local', true);
  execute format('set local app.current_tenant = %L', p_id);
  set local app.current_principals = '{*,everyone}';
  delete from public.tenants where id = p_id returning slug into deleted_slug;
  if deleted_slug is not null then
    for place in
      select c.oid from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
       where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    loop
      execute format('select exists (select from %s where tenant_id = $1)', place) into remains using p_id;
      if remains then
        raise exception 'the table % still has rows of the deleted tenant', place;
      end if;
    end loop;
  end if;
  set local app.current_tenant = '';
  set local app.current_principals = '';
  if deleted_slug is null then
    return false;
  end if;
  delete from public.tenant_slugs s where s.tenant = p_id;
  insert into public.platform_audit (actor, action, subject_tenant, detail)
  values (p_actor, 'tenant.delete', p_id, jsonb_build_object('slug', deleted_slug));
  return true;
end $$;
revoke all on function tenancy.delete_tenant(uuid, text) from public;
grant execute on function tenancy.delete_tenant(uuid, text) to kb_app;

-- The reads of platform administrators concern no particular tenant. The function only adds: the application's role can
-- neither read the audit trail nor change it.
create or replace function tenancy.note_action(p_actor text, p_action text, p_subject_tenant uuid, p_outcome text)
returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into public.platform_audit (actor, action, subject_tenant, outcome)
  values (p_actor, p_action, p_subject_tenant, p_outcome);
$$;
revoke all on function tenancy.note_action(text, text, uuid, text) from public;
grant execute on function tenancy.note_action(text, text, uuid, text) to kb_app;
