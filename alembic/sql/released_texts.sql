-- Texts that an admin has released from quarantine, so that they are not quarantined again.

create table released_texts (
  tenant_id uuid not null references tenants on delete cascade,
  text_hash bytea not null check (length(text_hash) = 32),
  flags text[] not null,
  released_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, text_hash)
);
comment on column released_texts.text_hash is 'the text_hash of the entries that have the text';
comment on column released_texts.flags is 'the flags for which it is not quarantined again';
