-- Challenges to the endpoints of subscriptions, and turns at their hosts.

-- name: claim_handshakes
-- Due challenges, reserved for this worker for a while.
update subscriptions u
   set challenges = u.challenges + 1, challenged_at = clock_timestamp(), challenge_at = clock_timestamp() + :lease::interval
  from saved_searches s
 where u.tenant_id = :tenant_id and s.tenant_id = :tenant_id and s.id = u.saved_search_id
   and u.saved_search_id = any (array(
         select d.saved_search_id from subscriptions d
          where d.tenant_id = :tenant_id and d.confirmation = 'pending' and d.state = 'active'
            and d.challenge_at <= clock_timestamp() and d.rights_until > clock_timestamp()
          order by d.challenge_at limit :limit for update skip locked))
returning u.saved_search_id, s.name, u.url, u.secret, u.challenges;

-- name: note
-- Only for the address that was asked: the owner may have changed it in the meantime.
update subscriptions
   set confirmation = :confirmation, last_error = :error, challenge_at = clock_timestamp() + :pause::interval,
       confirmed_at = case when :confirmation = 'confirmed' then clock_timestamp() end
 where tenant_id = :tenant_id and saved_search_id = :saved_search_id and url = :url and confirmation = 'pending';

-- name: postpone_handshakes
update subscriptions u
   set challenges = greatest(u.challenges - 1, 0), challenge_at = clock_timestamp() + p.pause
  from unnest(:saved_search_ids::uuid[], :urls::text[], :pauses::interval[]) p (saved_search_id, url, pause)
 where u.tenant_id = :tenant_id and u.saved_search_id = p.saved_search_id and u.url = p.url and u.confirmation = 'pending';

-- name: ask_again
-- Not before :pause has passed since the last challenge.
update subscriptions u
   set confirmation = 'pending', challenges = 0,
       challenge_at = greatest(u.challenged_at + :pause::interval, clock_timestamp())
  from saved_searches s
 where u.tenant_id = :tenant_id and u.saved_search_id = :id and u.confirmation <> 'confirmed'
   and s.tenant_id = :tenant_id and s.id = u.saved_search_id and s.owner = :owner;

-- name: take_turns
-- The order of the destinations is that of their locks.
select d.destination, t.granted, t.wait_seconds
  from unnest(:destinations::text[], :wanted::integer[]) with ordinality d (destination, wanted, place)
 cross join lateral tenancy.take_turns(d.destination, d.wanted, :quota) t
 order by d.place;

-- name: put
-- Messages that were sent or are waiting are not queued again. A message that was superseded by a change is queued again
-- when the entry returns to that state; one that was sent, or tried, before another one of the entry was delivered, is a new
-- message. Chunks have one message for each content. Messages over a subscription's limit are dropped.
with given as (
  select *
    from unnest(:ids::uuid[], :saved_search_ids::uuid[], :entry_ids::uuid[], :fingerprints::bytea[], :findings::jsonb[])
           g (id, saved_search_id, entry_id, fingerprint, finding)
), known as materialized (
  select g.id, g.saved_search_id, g.entry_id, g.fingerprint,
         case when d.state in ('delivered', 'given_up') then d.ended_at else d.created_at end as at
    from given g join deliveries d on d.tenant_id = :tenant_id and d.id = g.id
   where (d.state in ('delivered', 'given_up') or d.attempts > 0)
     and exists (select from entries e where e.tenant_id = :tenant_id and e.id = g.entry_id and e.asset_id is null)
), others as materialized (
  select d.id, d.saved_search_id, d.entry_id, d.fingerprint, d.state, d.ended_at
    from deliveries d
   where exists (select from known) and d.tenant_id = :tenant_id and d.state in ('delivered', 'waiting')
     and d.saved_search_id = any (array(select saved_search_id from known))
     and d.entry_id = any (array(select entry_id from known))
), repeated as (
  select k.id, coalesce(w.id, gen_random_uuid()) as new_id
    from known k
   cross join lateral (
     select o.fingerprint, o.ended_at from others o
      where o.saved_search_id = k.saved_search_id and o.entry_id = k.entry_id and o.state = 'delivered'
      order by o.ended_at desc limit 1) last
    left join lateral (
     select o.id from others o
      where o.saved_search_id = k.saved_search_id and o.entry_id = k.entry_id and o.fingerprint = k.fingerprint
        and o.state = 'waiting' and o.id <> k.id limit 1) w on true
   where last.fingerprint <> k.fingerprint and last.ended_at > k.at
), new as (
  select coalesce(r.new_id, g.id) as id, g.saved_search_id, g.entry_id, g.fingerprint, g.finding,
         row_number() over (partition by g.saved_search_id) as place
    from given g left join repeated r on r.id = g.id
), rooms as (
  select u.saved_search_id, :most::bigint - w.waiting as room
    from subscriptions u cross join lateral (
      select count(*) as waiting from (
        select from deliveries d
         where d.tenant_id = :tenant_id and d.saved_search_id = u.saved_search_id and d.state = 'waiting'
         limit :most::bigint) l) w
   where u.tenant_id = :tenant_id and u.saved_search_id = any (:saved_search_ids::uuid[])
), stored as (
  insert into deliveries as d (tenant_id, id, saved_search_id, entry_id, fingerprint, finding, state, ended_at)
  select :tenant_id, n.id, n.saved_search_id, n.entry_id, n.fingerprint, n.finding,
         case when n.place <= r.room then 'waiting' else 'given_up' end,
         case when n.place <= r.room then null else clock_timestamp() end
    from new n join rooms r on r.saved_search_id = n.saved_search_id
  on conflict (tenant_id, id) do update
     set entry_id = excluded.entry_id,
         state = case when d.state = 'waiting' then d.state else excluded.state end,
         ended_at = case when d.state = 'waiting' then d.ended_at else excluded.ended_at end,
         run_at = case when d.state = 'waiting' then d.run_at else clock_timestamp() end,
         created_at = case when d.state = 'waiting' then d.created_at else clock_timestamp() end,
         attempts = case when d.state = 'waiting' then d.attempts else 0 end
   where d.state in ('waiting', 'overtaken')
  returning d.saved_search_id, d.state
), told as (
  update subscriptions u set last_error = 'more than ' || :most::bigint || ' messages wait: new ones are not kept'
   where u.tenant_id = :tenant_id
     and u.saved_search_id in (select s.saved_search_id from stored s where s.state = 'given_up')
)
select count(*) filter (where state = 'waiting') as waiting, count(*) filter (where state = 'given_up') as given_up
  from stored;

-- name: claim
-- Due deliveries, reserved for this worker for a while. A failing endpoint is probed with one of them, not with all.
-- Rows are looked up one by one and updated by their location (they are locked), independent of the planner's estimate,
-- which may not include rows that were just queued.
with due as (
  select d.id, d.run_at, row_number() over (partition by u.saved_search_id order by d.run_at) as place
    from subscriptions u cross join lateral (
      select d.id, d.run_at from deliveries d
       where d.tenant_id = :tenant_id and d.saved_search_id = u.saved_search_id and d.state = 'waiting'
         and d.run_at <= clock_timestamp()
       order by d.run_at limit case when u.failures > 0 then 1 else :each end) d
   where u.tenant_id = :tenant_id and u.state = 'active' and u.confirmation = 'confirmed'
     and u.rights_until > clock_timestamp() and (u.retry_at is null or u.retry_at <= clock_timestamp())
), chosen as (
  select l.place
    from (select due.id from due order by due.place, due.run_at limit :limit) n cross join lateral (
      select d.ctid as place from deliveries d
       where d.tenant_id = :tenant_id and d.id = n.id and d.state = 'waiting' and d.run_at <= clock_timestamp()
       limit 1 for update skip locked) l
)
update deliveries d set attempts = d.attempts + 1, run_at = clock_timestamp() + :lease::interval
  from subscriptions u cross join saved_searches s
 where d.tenant_id = :tenant_id and d.ctid = any (array(select c.place from chosen c))
   and u.tenant_id = :tenant_id and u.saved_search_id = d.saved_search_id
   and s.tenant_id = :tenant_id and s.id = d.saved_search_id
returning d.id, d.saved_search_id, d.entry_id, d.fingerprint, d.finding, d.attempts, d.created_at, s.name, u.url,
          u.secret, u.failures, u.principals, coalesce(s.request ->> 'include_superseded' = 'true', false) as include_superseded;

-- name: end
update deliveries set state = :state, ended_at = clock_timestamp()
 where tenant_id = :tenant_id and id = any (:ids::uuid[]) and state = 'waiting';

-- name: retry
update deliveries set run_at = clock_timestamp() + :delay::interval
 where tenant_id = :tenant_id and id = :id and state = 'waiting';

-- name: postpone
update deliveries set attempts = greatest(attempts - 1, 0), run_at = clock_timestamp() + :delay::interval
 where tenant_id = :tenant_id and id = any (:ids::uuid[]) and state = 'waiting';

-- name: hold
update subscriptions set retry_at = greatest(retry_at, clock_timestamp() + :delay::interval)
 where tenant_id = :tenant_id and saved_search_id = any (:saved_search_ids::uuid[]);

-- name: note_success
-- An error about dropped messages is kept, and so is a hold for another reason than failures.
update subscriptions set failures = 0, failing_since = null, retry_at = case when failures = 0 then retry_at end,
                         last_error = case when failures = 0 then last_error end,
                         last_delivered_at = clock_timestamp()
 where tenant_id = :tenant_id and saved_search_id = :saved_search_id;

-- name: note_failure
-- Nothing is sent during a hold. A subscription whose endpoint fails for too long, or answers 410, is disabled.
update subscriptions
   set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()), last_error = :error,
       retry_at = case when :hold::interval is null then retry_at else clock_timestamp() + :hold::interval end,
       state = case when :gone::boolean or failing_since < clock_timestamp() - :patience::interval then 'disabled'
                    else state end
 where tenant_id = :tenant_id and saved_search_id = :saved_search_id
returning state;

-- name: next_due
-- Seconds until a delivery or a challenge is due; null if none can be sent.
select extract(epoch from min(case u.confirmation when 'confirmed' then greatest(d.run_at, u.retry_at)
                                                  else u.challenge_at end) - clock_timestamp())::double precision
  from subscriptions u left join lateral (
    select d.run_at from deliveries d
     where d.tenant_id = :tenant_id and d.saved_search_id = u.saved_search_id and d.state = 'waiting'
     order by d.run_at limit 1) d on true
 where u.tenant_id = :tenant_id and u.state = 'active' and u.rights_until > clock_timestamp()
   and (u.confirmation = 'pending' or u.confirmation = 'confirmed' and d.run_at is not null);

-- name: give_up_waiting
-- Called when the request of a saved search has changed.
update deliveries set state = 'given_up', ended_at = clock_timestamp()
 where tenant_id = :tenant_id and saved_search_id = :saved_search_id and state = 'waiting';

-- name: give_up_old
update deliveries set state = 'given_up', ended_at = clock_timestamp()
 where tenant_id = :tenant_id and state = 'waiting' and created_at < clock_timestamp() - :age::interval;

-- name: purge
delete from deliveries where tenant_id = :tenant_id and ended_at < clock_timestamp() - :age::interval;

-- name: disable_absent
update subscriptions set state = 'disabled', last_error = 'the owner has not called for too long'
 where tenant_id = :tenant_id and state = 'active' and rights_until < clock_timestamp() - :age::interval;

-- name: due_work
select exists (select from entry_changes where tenant_id = :tenant_id) as changes,
       exists (select from subscriptions u
                where u.tenant_id = :tenant_id and u.state = 'active' and u.rights_until > clock_timestamp()
                  and (u.confirmation = 'pending'
                       or u.confirmation = 'confirmed'
                          and exists (select from deliveries d
                                       where d.tenant_id = :tenant_id and d.saved_search_id = u.saved_search_id
                                         and d.state = 'waiting'))) as deliveries;
