"""Roles, embedding models, tenants, and the functions that act across tenants."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0001"
down_revision = None

# The three roles hold rights and cannot log in. Roles belong to the whole cluster, so another database may
# have made them before; `grant … with set true` lets a migrator that is no superuser create objects as them.
ROLES = """
do $$
declare role_name text;
begin
  foreach role_name in array array['kb_app', 'kb_keyword', 'kb_queue'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = role_name) then
      execute format('create role %I nologin nosuperuser nobypassrls', role_name);
    end if;
    if not pg_has_role(current_user, role_name, 'set') then
      execute format('grant %I to current_user with set true, inherit false', role_name);
    end if;
  end loop;
end $$;
create extension if not exists btree_gin;
create extension if not exists pg_trgm;
"""

UP = (
    ROLES
    + """
create function current_tenant() returns uuid
language sql stable parallel safe
return nullif(pg_catalog.current_setting('app.current_tenant', true), '')::uuid;

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
  unique (provider, name, dimensions)
);

create table tenants (
  id uuid primary key,
  slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name text not null check (length(name) between 1 and 200),
  model_id integer not null references embedding_models,
  settings jsonb not null default '{}' check (jsonb_typeof(settings) = 'object'),
  created_at timestamptz not null default now()
);
-- Not FORCE: the functions below belong to the owner and list, make and remove tenants.
alter table tenants enable row level security;
create policy own_tenant on tenants to kb_app
  using (id = (select current_tenant())) with check (id = (select current_tenant()));

-- Outlives the tenant it speaks of, so its column is not a tenant_id and no tenant can read it.
create table platform_audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  actor text not null,
  action text not null,
  subject_tenant uuid not null,
  detail jsonb not null default '{}'
);

create schema tenancy;

create function tenancy.list_tenants()
returns table (id uuid, slug text, name text, model_id integer, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select id, slug, name, model_id, created_at from public.tenants order by created_at, id $$;

create function tenancy.create_tenant(p_id uuid, p_slug text, p_name text, p_model_id integer, p_actor text)
returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into public.tenants (id, slug, name, model_id) values (p_id, p_slug, p_name, p_model_id);
  insert into public.platform_audit (actor, action, subject_tenant, detail)
  values (p_actor, 'tenant.create', p_id, jsonb_build_object('slug', p_slug));
$$;

-- Foreign keys cascade to every table of the tenant. The tenant is set so that triggers on those tables,
-- which run under row-level security, find its rows.
create function tenancy.delete_tenant(p_id uuid, p_actor text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare deleted_slug text;
begin
  perform set_config('app.current_tenant', p_id::text, true);
  delete from public.tenants where id = p_id returning slug into deleted_slug;
  perform set_config('app.current_tenant', '', true);
  if deleted_slug is null then
    return false;
  end if;
  insert into public.platform_audit (actor, action, subject_tenant, detail)
  values (p_actor, 'tenant.delete', p_id, jsonb_build_object('slug', deleted_slug));
  return true;
end $$;

revoke all on function current_tenant() from public;
revoke all on all functions in schema tenancy from public;
grant usage on schema public, tenancy to kb_app;
grant execute on function current_tenant() to kb_app, kb_keyword, kb_queue;
grant execute on all functions in schema tenancy to kb_app;
grant select on embedding_models, alembic_version to kb_app;
grant select, update (name, settings, model_id) on tenants to kb_app;
"""
)

# The roles stay: they belong to the cluster, and another database may use them.
DOWN = """
drop schema tenancy cascade;
drop table platform_audit;
drop table tenants;
drop table embedding_models;
drop function current_tenant();
drop extension pg_trgm;
drop extension btree_gin;
revoke select on alembic_version from kb_app;
revoke usage on schema public from kb_app;
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
