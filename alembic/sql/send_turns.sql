-- A limit on messages to one destination, over all tenants and processes. Only the function below reads and writes the
-- table: the service has no rights on it, so no tenant sees where others send to.

create table send_turns (
  destination text not null check (length(destination) between 1 and 300),
  tenant uuid not null,
  window_at timestamptz not null,
  taken integer not null default 0,
  place bigint not null default 0,
  refused_at timestamptz not null default '-infinity',
  primary key (destination, tenant)
);
comment on column send_turns.tenant is 'No foreign key, because a row is only kept for an hour';
comment on column send_turns.taken is 'Messages of the window that began at window_at';
comment on column send_turns.place is 'Grows with each turn: of the tenants that wait, the lowest are first';
comment on column send_turns.refused_at is 'The last time that the tenant got fewer turns than it wanted: it waits for more';
create index send_turns_by_window on send_turns (window_at);

-- Takes up to p_wanted of the p_quota turns of the current window of six seconds for the current tenant, and returns their
-- number and the seconds until the next window.
--
-- A single tenant can take all turns. Tenants that wait, i.e. were refused in this window or the one before, have equal
-- shares, which others leave to them. If there are more of them than turns, each gets one, and those that have had the
-- fewest go first.
create or replace function tenancy.take_turns(p_destination text, p_wanted integer, p_quota integer)
returns table (granted integer, wait_seconds double precision)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare
  span constant interval := '6 seconds';
  me constant uuid := current_tenant();
  mine send_turns;
  window_start timestamptz;
  used bigint;
  waiting bigint;
  share bigint;
  reserved bigint;
  lowest bigint;
begin
  if me is null or p_destination is null or p_destination = '' or length(p_destination) > 300
     or p_wanted is null or p_quota is null then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended(p_destination, 22));
  window_start := date_bin(span, clock_timestamp(), timestamptz '1970-01-01 00:00Z');
  delete from send_turns t
   where t.ctid = any (array(select o.ctid from send_turns o where o.window_at < window_start - interval '1 hour'
                              order by o.window_at limit 10 for update skip locked));
  insert into send_turns as t (destination, tenant, window_at) values (p_destination, me, window_start)
  on conflict (destination, tenant) do update
     set window_at = window_start, taken = case when t.window_at = window_start then t.taken else 0 end
  returning t.* into mine;
  select coalesce(sum(t.taken) filter (where t.window_at = window_start), 0),
         count(*) filter (where t.tenant <> me and t.refused_at >= window_start - span),
         min(t.place) filter (where t.tenant <> me and t.refused_at >= window_start - span)
    into used, waiting, lowest
    from send_turns t where t.destination = p_destination;
  -- A tenant that begins to wait is not before those that wait already, and none is far behind them.
  if mine.refused_at < window_start - span then
    mine.place := greatest(mine.place, lowest);
  end if;
  mine.place := least(mine.place, lowest + p_quota);
  share := greatest(p_quota / (waiting + 1), 1);
  select coalesce(sum(greatest(share - case when t.window_at = window_start then t.taken else 0 end, 0)), 0)
    into reserved
    from send_turns t
   where t.destination = p_destination and t.tenant <> me and t.refused_at >= window_start - span
     and (p_quota > waiting or (t.place, t.tenant) < (mine.place, me));
  granted := greatest(least(p_wanted, p_quota - used - reserved), 0)::integer;
  if p_quota <= waiting then
    granted := least(granted, greatest(1 - mine.taken, 0));
  end if;
  wait_seconds := extract(epoch from window_start + span - clock_timestamp());
  update send_turns t
     set taken = t.taken + granted, place = mine.place + granted,
         refused_at = case when granted < p_wanted then clock_timestamp() else t.refused_at end
   where t.destination = p_destination and t.tenant = me;
  return next;
end $$;
revoke all on function tenancy.take_turns(text, integer, integer) from public;
grant execute on function tenancy.take_turns(text, integer, integer) to kb_app;
