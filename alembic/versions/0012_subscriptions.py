"""Subscriptions on saved searches: what changed, what is to be delivered; feedback's query; entries made from one."""

from __future__ import annotations

from app.db.schema.migration import execute_script, isolate_tables

revision = "0012"
down_revision = "0011"

TABLES = f"""
create table subscriptions (
  tenant_id uuid not null references tenants on delete cascade,
  saved_search_id uuid not null,
  url text not null check (length(url) between 1 and 2000),
  secret text not null,
  state text not null default 'active' check (state in ('active', 'disabled')),
  rights_until timestamptz not null,
  failures integer not null default 0,
  failing_since timestamptz,
  retry_at timestamptz,
  last_error text,
  last_delivered_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, saved_search_id),
  foreign key (tenant_id, saved_search_id) references saved_searches (tenant_id, id) on delete cascade
);
comment on column subscriptions.rights_until is
  'Until then the owner counts as a reader: a time after the last call with a token that says so';
comment on column subscriptions.failures is 'Tries in a row that the endpoint did not take';
comment on column subscriptions.retry_at is 'While the endpoint fails: nothing is sent to it before then';

create table entry_changes (
  tenant_id uuid not null references tenants on delete cascade,
  entry_id uuid not null,
  changed_at timestamptz not null default clock_timestamp(),
  words_checked boolean not null default false,
  primary key (tenant_id, entry_id),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
);
create index entry_changes_by_time on entry_changes (tenant_id, changed_at) where not words_checked;
comment on table entry_changes is 'New and changed entries that subscriptions have yet to be compared with';
comment on column entry_changes.words_checked is 'Compared by words already, while the vector is still to be made';

create table deliveries (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  saved_search_id uuid not null,
  entry_id uuid not null,
  fingerprint bytea not null,
  finding jsonb not null,
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'given_up', 'overtaken')),
  attempts integer not null default 0,
  run_at timestamptz not null default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, saved_search_id) references subscriptions (tenant_id, saved_search_id) on delete cascade
);
comment on column deliveries.id is 'Made from the subscription, the entry and its fingerprint: the same thing is sent once';
comment on column deliveries.fingerprint is 'sha256 of what the entry said when it matched';
comment on column deliveries.finding is 'How the saved search found the entry: its legs, and the similarity';
create index deliveries_due on deliveries (tenant_id, saved_search_id, run_at) where state = 'waiting';
create index deliveries_by_subscription on deliveries (tenant_id, saved_search_id, state);
{isolate_tables("subscriptions", "entry_changes", "deliveries")}

alter table jobs drop constraint jobs_kind_check;
alter table jobs add constraint jobs_kind_check
  check (kind in ('ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors', 'reembed', 'match_changes',
                  'deliver_webhooks'));

alter table feedback add column query text;
comment on column feedback.query is 'What was asked, only where the tenant keeps it: searches are forgotten after a day';
"""

# In the transaction that writes entries, whoever writes them: a change that is there is delivered. A job that is queued
# already is locked until then, so that no worker takes it, finds nothing yet and removes it. By its name the trigger
# runs after those that count: writers of a tenant lock counters, tags and the job in one order.
TRIGGER = """
create function note_changes() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into entry_changes (tenant_id, entry_id)
  select a.tenant_id, a.id from added a
   where exists (select from subscriptions s where s.tenant_id = a.tenant_id and s.state = 'active')
   order by 1, 2
  on conflict (tenant_id, entry_id) do update set changed_at = clock_timestamp(), words_checked = false;
  if found then
    insert into jobs (tenant_id, id, kind, subject)
    select a.tenant_id, gen_random_uuid(), 'match_changes', 'entries' from added a group by a.tenant_id
    on conflict (tenant_id, kind, subject) where state = 'queued'
    do update set run_at = least(jobs.run_at, excluded.run_at);
    perform pg_notify('jobs', '');
  end if;
  return null;
end $$;
create trigger watch_inserted after insert on entries
  referencing new table as added for each statement execute function note_changes();
create trigger watch_updated after update on entries
  referencing new table as added for each statement execute function note_changes();
revoke all on function note_changes() from public;
"""

# Arrays are compared here for the same reason as tags: under row-level security no index would serve.
DERIVED = """
grant create on schema keyword to kb_keyword;
set local role kb_keyword;
create function keyword.derived_entries(p_source uuid, p_limit integer) returns table (entry_id uuid)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare tenant constant uuid := keyword.required_tenant();
begin
  return query
    select e.id from entries e
     where e.tenant_id = tenant and e.source_ids @> array[p_source] and e.id <> p_source
       and (e.expires_at is null or e.expires_at > now()) and e.superseded_by_id is null
     order by e.created_at desc, e.id
     limit p_limit;
end $$;
revoke all on function keyword.derived_entries(uuid, integer) from public;
grant execute on function keyword.derived_entries(uuid, integer) to kb_app;
reset role;
revoke create on schema keyword from kb_keyword;
"""

DOWN = """
grant create on schema keyword to kb_keyword;
set local role kb_keyword;
drop function keyword.derived_entries(uuid, integer);
reset role;
revoke create on schema keyword from kb_keyword;
drop trigger watch_updated on entries;
drop trigger watch_inserted on entries;
drop function note_changes();
alter table feedback drop column query;
drop table deliveries, entry_changes, subscriptions;
do $$
declare tenant uuid;
begin
  for tenant in select id from tenants order by id loop
    perform set_config('app.current_tenant', tenant::text, true);
    delete from jobs where tenant_id = tenant and kind in ('match_changes', 'deliver_webhooks');
  end loop;
  perform set_config('app.current_tenant', '', true);
end $$;
alter table jobs drop constraint jobs_kind_check;
alter table jobs add constraint jobs_kind_check
  check (kind in ('ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors', 'reembed'));
"""


def upgrade() -> None:
    execute_script(TABLES + TRIGGER + DERIVED)


def downgrade() -> None:
    execute_script(DOWN)
