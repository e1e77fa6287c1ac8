-- Bearer tokens that admins of a tenant create for programs.

create table api_keys (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  name text not null check (length(name) between 1 and 100),
  digest bytea not null check (octet_length(digest) = 32),
  role text not null check (role in ('reader', 'creator', 'tenant_admin')),
  groups text[] not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  last_used_at timestamptz,
  primary key (tenant_id, id),
  unique (tenant_id, name)
);
comment on column api_keys.digest is
  'SHA-256 of the key. The key has 256 random bits, so a slow hash would add nothing: there is nothing to guess';
comment on column api_keys.last_used_at is 'Written in batches, at most once a minute by each process';
