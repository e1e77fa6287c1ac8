-- Searches, feedback on them, saved searches, counts of accesses, and the audit trail of a tenant.

create table searches (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  subject text not null,
  at timestamptz not null default clock_timestamp(),
  fallback boolean not null,
  result_count integer not null,
  query_time_ms integer not null,
  receipt jsonb not null,
  ranking bytea,
  primary key (tenant_id, id)
);
comment on column searches.receipt is 'Settings and model; the query text only if the tenant keeps it';
comment on column searches.ranking is
  'The candidates, best first, with their ranks in each leg, as the service packs them; null: not kept any more';
-- Ids and scores do not become smaller, and to try it takes longer than all the rest of a record.
alter table searches alter column ranking set storage external;
create index searches_by_time on searches (tenant_id, at) include (fallback, result_count, query_time_ms);

create table feedback (
  tenant_id uuid not null references tenants on delete cascade,
  search_id uuid not null,
  entry_id uuid not null,
  subject text not null,
  relevant boolean not null,
  at timestamptz not null default clock_timestamp(),
  query text,
  primary key (tenant_id, search_id, entry_id, subject),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
);
comment on column feedback.query is 'The query, only if the tenant keeps it; searches are deleted after a day';

create table saved_searches (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  owner text not null,
  name text not null check (length(name) between 1 and 200),
  request jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  unique (tenant_id, owner, name)
);

-- Separate from entries: a counter there would rewrite the whole row and its index entries.
create table access_counts (
  tenant_id uuid not null references tenants on delete cascade,
  entry_id uuid not null,
  accesses bigint not null,
  primary key (tenant_id, entry_id),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
) with (fillfactor = 70);

create table audit (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  at timestamptz not null default clock_timestamp(),
  actor text not null,
  action text not null,
  subject_ids uuid[] not null default '{}',
  detail jsonb not null default '{}',
  outcome text not null default 'done' check (outcome in ('done', 'refused')),
  primary key (tenant_id, id)
);
create index audit_by_time on audit (tenant_id, at desc, id desc);

-- The tenants with an audited operation within this time, or with a search that was made, or became as old as one of the
-- ages, within this time. It has no rights of its own: it looks as the service of one tenant after another, and every policy
-- applies.
create or replace function tenancy.active_tenants(p_within interval, p_ages interval[]) returns setof uuid
language plpgsql volatile set search_path = pg_catalog, public, pg_temp
as $$
declare
  me constant text := coalesce(current_setting('app.current_tenant', true), '');
  own constant text := begin_as_service();
  now_at constant timestamptz := clock_timestamp();
  tenant uuid;
begin
  for tenant in select t.id from tenancy.list_tenants() t loop
    perform set_config('app.current_tenant', tenant::text, true);
    if exists (select from audit a where a.tenant_id = tenant and a.at > now_at - p_within)
       or exists (select from unnest(p_ages || interval '0') w (age)
                    join searches s on s.at > now_at - p_within - w.age and s.at <= now_at - w.age
                   where s.tenant_id = tenant) then
      return next tenant;
    end if;
  end loop;
  perform set_config('app.current_tenant', me, true);
  perform set_config('app.current_principals', own, true);
end $$;
revoke all on function tenancy.active_tenants(interval, interval[]) from public;
grant execute on function tenancy.active_tenants(interval, interval[]) to kb_app;
