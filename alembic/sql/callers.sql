-- The callers of a tenant, as their last tokens described them: groups are known from tokens only.

create table callers (
  tenant_id uuid not null references tenants on delete cascade,
  subject text not null check (length(subject) between 1 and 255),
  principals text[] not null,
  roles text[] not null,
  last_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, subject)
);
comment on column callers.principals is 'everyone, user:SUB, and group:NAME for each group of the token';
comment on column callers.last_at is 'Of the last call that was noted: at most one in an hour, unless the groups or roles changed';
create index callers_by_time on callers (tenant_id, last_at);
