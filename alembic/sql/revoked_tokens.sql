-- Tokens that are refused before they expire.

create table revoked_tokens (
  tenant_id uuid not null references tenants on delete cascade,
  token_id text not null check (length(token_id) between 1 and 255),
  revoked_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  primary key (tenant_id, token_id)
);
comment on column revoked_tokens.token_id is 'The jti of the token';
comment on column revoked_tokens.expires_at is 'The token has expired by then, and the row is deleted';
