-- The vectors of entries, and the entries that wait for vectors.

create table embeddings (
  tenant_id uuid not null references tenants on delete cascade,
  entry_id uuid not null,
  model_id integer not null references embedding_models,
  passage integer not null check (passage >= 0),
  text_hash bytea not null,
  char_start integer not null,
  char_end integer not null,
  in_index boolean not null,
  embedding halfvec not null,
  readers text[],
  primary key (tenant_id, entry_id, model_id, passage),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
) /* one server */ partition by hash (tenant_id) /* Citus: */;
comment on column embeddings.in_index is
  'Whether the tenant''s HNSW index includes the row; false for tenants that are small enough for exact search';
comment on column embeddings.readers is 'Those of the entry';
-- Inline storage: otherwise each comparison would need a second fetch.
alter table embeddings alter column embedding set storage plain;

/* one server */
do $$
begin
  for n in 0..31 loop
    execute format('create table %1$s_p%2$s partition of %1$s for values with (modulus 32, remainder %3$s)',
                   'embeddings', lpad(n::text, 2, '0'), n);
  end loop;
end $$;
/* Citus: */

create index embeddings_by_text on embeddings (tenant_id, text_hash, model_id);

-- Each large tenant has an HNSW index of its own for each of its models. In a graph that several tenants share, the
-- vectors of one would change the time and the completeness of another's searches. The index is created empty, with one
-- scan of the partition, and upkeep then moves the vectors into it in small transactions: bulk building would block the
-- writers of every tenant in the partition, and CREATE INDEX CONCURRENTLY cannot run in a function, so that the service
-- would need the rights of the tables' owner.
--
-- hnsw parameters: with `hnsw.ef_search` 100, pgvector's default of 64 for ef_construction finds 0.94 of the ten nearest
-- of 100,000 passages; 128 finds 0.99 and doubles the build time.
create or replace function tenancy.create_vector_index(p_model_id integer) returns void
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set lock_timeout = '200ms'
set max_parallel_maintenance_workers = 0 set maintenance_work_mem = '1MB'
as $$
declare
  owner uuid := current_tenant();
  dimensions integer := (select m.dimensions from embedding_models m where m.id = p_model_id);
  place regclass;
begin
  if owner is null then
    raise exception 'no tenant is set' using errcode = 'insufficient_privilege';
  end if;
  -- The lock keeps the tenant from being deleted before its index exists: the deletion then finds the index.
  perform from tenants t where t.id = owner for key share;
  if not found or dimensions is null then
    raise exception 'there is no such tenant or model' using errcode = 'invalid_parameter_value';
  end if;
  if exists (select from embeddings k where k.tenant_id = owner and k.model_id = p_model_id and k.in_index) then
    raise exception 'the index must be created empty' using errcode = 'object_not_in_prerequisite_state';
  end if;
  place := 'public.embeddings'::regclass;
  if (select c.relkind from pg_class c where c.oid = place) = 'p' then
    select c.oid::regclass into strict place
      from pg_inherits h join pg_class c on c.oid = h.inhrelid
     cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'modulus (\d+), remainder (\d+)') b (found)
     where h.inhparent = place
       and satisfies_hash_partition(h.inhparent, b.found[1]::integer, b.found[2]::integer, owner);
  end if;
  execute format('create index %I on %s using hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops)
                  with (m = 16, ef_construction = 128) where tenant_id = %L::uuid and model_id = %s and in_index',
                 'embeddings_hnsw_' || p_model_id || '_' || replace(owner::text, '-', ''), place, dimensions, owner, p_model_id);
end $$;
revoke all on function tenancy.create_vector_index(integer) from public;
grant execute on function tenancy.create_vector_index(integer) to kb_app;

-- The tenant may be deleted already. Returns whether there was an index.
create or replace function tenancy.drop_vector_index(p_model_id integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set lock_timeout = '200ms'
as $$
declare
  owner uuid := current_tenant();
  place regclass := to_regclass('public.embeddings_hnsw_' || p_model_id || '_' || replace(owner::text, '-', ''));
begin
  if owner is null then
    raise exception 'no tenant is set' using errcode = 'insufficient_privilege';
  end if;
  if place is null then
    return false;
  end if;
  execute format('drop index %s', place);
  return true;
end $$;
revoke all on function tenancy.drop_vector_index(integer) from public;
grant execute on function tenancy.drop_vector_index(integer) to kb_app;

-- Entries whose vectors are still to be computed, per model. A row is removed when the vectors are stored.
create table pending_embeddings (
  tenant_id uuid not null references tenants on delete cascade,
  model_id integer not null references embedding_models,
  entry_id uuid not null,
  attempts integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, model_id, entry_id),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
);
