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
  primary key (tenant_id, entry_id, model_id, passage),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
) partition by hash (tenant_id);
comment on column embeddings.in_index is
  'Whether the HNSW index of the model includes the row; false for tenants that are small enough for exact search';
-- Inline storage: otherwise each comparison would need a second fetch.
alter table embeddings alter column embedding set storage plain;

do $$
begin
  for n in 0..31 loop
    execute format('create table %1$s_p%2$s partition of %1$s for values with (modulus 32, remainder %3$s)',
                   'embeddings', lpad(n::text, 2, '0'), n);
  end loop;
end $$;

create index embeddings_by_text on embeddings (tenant_id, text_hash, model_id);

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
