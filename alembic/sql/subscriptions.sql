-- Subscriptions to saved searches: changed entries, and deliveries.

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
  confirmation text not null default 'pending' check (confirmation in ('pending', 'confirmed', 'refused')),
  confirmed_at timestamptz,
  challenges integer not null default 0,
  challenged_at timestamptz,
  challenge_at timestamptz not null default clock_timestamp(),
  principals text[] not null default '{everyone}',
  primary key (tenant_id, saved_search_id),
  foreign key (tenant_id, saved_search_id) references saved_searches (tenant_id, id) on delete cascade
);
comment on column subscriptions.rights_until is
  'Until then the owner counts as a reader; extended by each call with a token that allows reading';
comment on column subscriptions.principals is 'Those of the owner at its last call: what it may not read is not sent';
comment on column subscriptions.failures is 'Consecutive tries that the endpoint did not accept';
comment on column subscriptions.retry_at is
  'Nothing is sent to the endpoint before then: it fails, or its host has had its messages of the moment';
comment on column subscriptions.confirmation is 'Whether the endpoint has answered a challenge; nothing is sent to it before';
comment on column subscriptions.challenges is 'Challenges sent since the subscription was created or the owner asked again';
comment on column subscriptions.challenge_at is 'While pending: the time of the next challenge';

create table entry_changes (
  tenant_id uuid not null references tenants on delete cascade,
  entry_id uuid not null,
  changed_at timestamptz not null default clock_timestamp(),
  words_checked boolean not null default false,
  primary key (tenant_id, entry_id),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
);
create index entry_changes_by_time on entry_changes (tenant_id, changed_at) where not words_checked;
comment on table entry_changes is 'New and changed entries that still have to be compared with subscriptions';
comment on column entry_changes.words_checked is 'Already compared by keyword, while the vector is still to be computed';

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
comment on column deliveries.id is 'Derived from the subscription, the entry and its fingerprint, so that the same content is sent once';
comment on column deliveries.fingerprint is 'sha256 of the content of the entry when it matched';
comment on column deliveries.finding is 'How the saved search found the entry: its legs, and the similarity';
create index deliveries_due on deliveries (tenant_id, saved_search_id, run_at) where state = 'waiting';
create index deliveries_by_subscription on deliveries (tenant_id, saved_search_id, state);

-- Runs in each transaction that writes entries, so that no committed change is missed. A job that is already queued is
-- locked until the commit, so that no worker takes it, finds no change yet and removes it. Because of its name, the
-- trigger runs after the counting triggers: all writers of a tenant lock counters, tags and the job in the same order.
create or replace function note_changes() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  writer uuid;
  ids uuid[];
  now_at constant timestamptz := clock_timestamp();
begin
  for writer in select distinct a.tenant_id from added a order by 1 loop
    perform from subscriptions s where s.tenant_id = writer and s.state = 'active' limit 1;
    continue when not found;
    ids := array(select a.id from added a where a.tenant_id = writer);
    insert into entry_changes (tenant_id, entry_id, changed_at)
    select e.tenant_id, e.id, now_at from entries e where e.tenant_id = writer and e.id = any (ids) order by 1, 2
    on conflict (tenant_id, entry_id) do update set changed_at = excluded.changed_at, words_checked = false;
    insert into jobs (tenant_id, id, kind, subject) values (writer, gen_random_uuid(), 'match_changes', 'entries')
    on conflict (tenant_id, kind, subject) where state = 'queued'
    do update set run_at = least(jobs.run_at, excluded.run_at);
    perform pg_notify('jobs', '');
  end loop;
  return null;
end $$;
revoke all on function note_changes() from public;

create trigger watch_inserted after insert on entries
  referencing new table as added for each statement execute function note_changes();
create trigger watch_updated after update on entries
  referencing new table as added for each statement execute function note_changes();
