"""A tenant's change to another embedding model, and a deletion of tenants that makes sure nothing is left."""

from __future__ import annotations

from alembic import op
from app.db.schema.migration import execute_script, isolate_tables

revision = "0010"
down_revision = "0009"

UP = f"""
create table model_changes (
  tenant_id uuid primary key references tenants on delete cascade,
  from_model integer not null references embedding_models,
  to_model integer not null references embedding_models check (to_model <> from_model),
  state text not null default 'filling' check (state in ('filling', 'ready', 'dropping')),
  rate integer check (rate > 0),
  switch_at double precision check (switch_at between 0 and 1),
  place uuid not null default '00000000-0000-0000-0000-000000000000',
  visited bigint not null default 0,
  visited_all boolean not null default false,
  comparison jsonb,
  started_at timestamptz not null default clock_timestamp(),
  ready_at timestamptz,
  switched_at timestamptz
);
comment on table model_changes is 'While a row is here and not being dropped, every entry gets vectors of both models';
comment on column model_changes.rate is 'Texts to embed a minute; null: as many as the provider takes';
comment on column model_changes.switch_at is 'Least overlap at which the tenant is switched by itself; null: by hand';
comment on column model_changes.place is 'Entries up to this id wait for their vectors, or have them';
{isolate_tables("model_changes")}

alter table jobs drop constraint jobs_kind_check;
alter table jobs add constraint jobs_kind_check
  check (kind in ('ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors', 'reembed'));

-- Whoever writes an entry, and whichever model it knows of: the entry waits for vectors of both. A change begins with
-- a lock on the tenant that waits for those who write: each sees the change here, or is seen by it.
create function await_both_models() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    insert into pending_embeddings (tenant_id, model_id, entry_id)
    select a.tenant_id, m.id, a.id
      from model_changes c join added a on a.tenant_id = c.tenant_id
     cross join unnest(array[c.from_model, c.to_model]) m (id)
     where c.state <> 'dropping' order by 1, 2, 3
    on conflict do nothing;
  else
    insert into pending_embeddings (tenant_id, model_id, entry_id)
    select a.tenant_id, m.id, a.id
      from model_changes c join added a on a.tenant_id = c.tenant_id
      join removed r on r.tenant_id = a.tenant_id and r.id = a.id and r.text_hash <> a.text_hash
     cross join unnest(array[c.from_model, c.to_model]) m (id)
     where c.state <> 'dropping' order by 1, 2, 3
    on conflict do nothing;
  end if;
  return null;
end $$;
create trigger embed_inserted after insert on entries
  referencing new table as added for each statement execute function await_both_models();
create trigger embed_updated after update on entries
  referencing old table as removed new table as added for each statement execute function await_both_models();

-- Vectors that come late, of a model that the tenant has left for good, are not kept: their entries wait for those of
-- the model that it has now. By its name it runs after the trigger that counts, which then counts the removal too.
create function keep_models_in_use() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  late record;
begin
  for late in
    select distinct a.tenant_id, a.model_id, t.model_id as current_model
      from added a join tenants t on t.id = a.tenant_id
     where a.model_id <> t.model_id
       and not exists (select from model_changes c where c.tenant_id = a.tenant_id and c.state <> 'dropping'
                          and a.model_id in (c.from_model, c.to_model))
  loop
    insert into pending_embeddings (tenant_id, model_id, entry_id)
    select distinct late.tenant_id, late.current_model, a.entry_id
      from added a
     where a.tenant_id = late.tenant_id and a.model_id = late.model_id
       and not exists (select from embeddings k where k.tenant_id = late.tenant_id and k.entry_id = a.entry_id
                          and k.model_id = late.current_model)
     order by 3
    on conflict do nothing;
    delete from embeddings k using added a
     where a.tenant_id = late.tenant_id and a.model_id = late.model_id
       and k.tenant_id = a.tenant_id and k.entry_id = a.entry_id and k.model_id = a.model_id and k.passage = a.passage;
  end loop;
  return null;
end $$;
create trigger keep_models_in_use after insert on embeddings
  referencing new table as added for each statement execute function keep_models_in_use();

revoke all on function await_both_models(), keep_models_in_use() from public;

-- As before, and every table with a tenant_id is looked at, those of later revisions too: should one hold on to a
-- row of the tenant, the deletion fails as a whole.
create or replace function tenancy.delete_tenant(p_id uuid, p_actor text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  deleted_slug text;
  place regclass;
  remains boolean;
begin
  perform set_config('app.current_tenant', p_id::text, true);
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
  perform set_config('app.current_tenant', '', true);
  if deleted_slug is null then
    return false;
  end if;
  insert into public.platform_audit (actor, action, subject_tenant, detail)
  values (p_actor, 'tenant.delete', p_id, jsonb_build_object('slug', deleted_slug));
  return true;
end $$;
"""

# The jobs' new check reads every row, which the owner cannot remove without looking at tenant after tenant.
DOWN = """
drop trigger keep_models_in_use on embeddings;
drop trigger embed_updated on entries;
drop trigger embed_inserted on entries;
drop function keep_models_in_use(), await_both_models();
drop table model_changes;
do $$
declare tenant uuid;
begin
  for tenant in select id from tenants order by id loop
    perform set_config('app.current_tenant', tenant::text, true);
    delete from jobs where tenant_id = tenant and kind = 'reembed';
    -- What is left of a change that was not carried through is of no use to anybody.
    delete from pending_embeddings p using tenants t
     where p.tenant_id = tenant and t.id = tenant and p.model_id <> t.model_id;
    delete from embeddings k using tenants t
     where k.tenant_id = tenant and t.id = tenant and k.model_id <> t.model_id;
    delete from vector_statistics v using tenants t
     where v.tenant_id = tenant and t.id = tenant and v.model_id <> t.model_id;
  end loop;
  perform set_config('app.current_tenant', '', true);
end $$;
alter table jobs drop constraint jobs_kind_check;
alter table jobs add constraint jobs_kind_check
  check (kind in ('ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors'));
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN + _released_deletion())


def _released_deletion() -> str:
    """The function as revision 0001 made it."""
    script = op.get_context().script.get_revision("0001").module.UP
    start = script.index("create function tenancy.delete_tenant(")
    end = script.index("end $$;", start) + len("end $$;")
    return str(script[start:end]).replace("create function", "create or replace function", 1)
