-- Sources: places elsewhere whose files are assets here, and the list of files that each had last.

create table sources (
  tenant_id uuid not null references tenants on delete cascade,
  name text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  origin text check (length(origin) between 1 and 2000),
  run bigint not null default 0,
  items integer not null default 0,
  listed_at timestamptz not null,
  agreed_run bigint not null default 0,
  agreed_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  readers text[] check (readers is null or is_principal_list(readers)),
  writers text[] check (writers is null or is_principal_list(writers)),
  primary key (tenant_id, name)
);
comment on column sources.readers is 'Who may see the source, and read its assets; null: all readers of the tenant';
comment on column sources.writers is 'Who of them may send manifests and files, and change its assets; null: all creators';
comment on column sources.run is 'Number of the last accepted manifest';
comment on column sources.items is 'Items of that manifest; fewer rows of source_items: assets were deleted since';
comment on column sources.listed_at is 'When the listing of the origin for that manifest began';
comment on column sources.agreed_run is 'The last manifest whose items were all settled';
comment on column sources.agreed_at is 'Its listed_at: the assets were then the same as the origin';

create table source_items (
  tenant_id uuid not null references tenants on delete cascade,
  source text not null,
  external_id text not null check (length(external_id) between 1 and 512),
  digest text not null check (length(digest) between 1 and 200),
  name text not null check (length(name) between 1 and 512),
  asset_id uuid,
  stored_digest text,
  settled boolean not null default false,
  problem text,
  readers text[] check (readers is null or is_principal_list(readers)),
  primary key (tenant_id, source, external_id),
  foreign key (tenant_id, source) references sources (tenant_id, name) on delete cascade,
  foreign key (tenant_id, asset_id) references assets (tenant_id, id) on delete cascade
);
comment on column source_items.digest is 'Identifies the content that the origin has, in a form of the origin''s choice';
comment on column source_items.stored_digest is 'The digest of the bytes that the asset has; null: they must be uploaded again';
comment on column source_items.settled is 'The asset has the content of the digest and is indexed or failed, or the item was refused';
comment on column source_items.readers is 'Those that the manifest gave the item; null: those of the source';
comment on column source_items.problem is 'Why the item was refused and has no asset';
create unique index source_items_by_asset on source_items (tenant_id, asset_id) where asset_id is not null;
create index source_items_unsettled on source_items (tenant_id, source, external_id) where not settled;
