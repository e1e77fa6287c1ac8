-- name: put
-- What was sent, or waits to be, is not queued again; what was overtaken by a change and is as it was, is.
insert into deliveries as d (tenant_id, id, saved_search_id, entry_id, fingerprint, finding)
select :tenant_id, n.id, n.saved_search_id, n.entry_id, n.fingerprint, n.finding
  from unnest(:ids::uuid[], :saved_search_ids::uuid[], :entry_ids::uuid[], :fingerprints::bytea[], :findings::jsonb[])
         n (id, saved_search_id, entry_id, fingerprint, finding)
  join subscriptions u on u.tenant_id = :tenant_id and u.saved_search_id = n.saved_search_id
on conflict (tenant_id, id) do update
   set entry_id = excluded.entry_id, state = 'waiting', ended_at = null,
       run_at = case when d.state = 'waiting' then d.run_at else clock_timestamp() end
 where d.state in ('waiting', 'overtaken');

-- name: claim
-- Due deliveries, kept from other workers for a while. A failing endpoint is asked with one of them, not with all.
with due as (
  select d.id, u.failures,
         row_number() over (partition by d.saved_search_id order by d.run_at, d.created_at, d.id) as place
    from deliveries d
    join subscriptions u on u.tenant_id = :tenant_id and u.saved_search_id = d.saved_search_id
   where d.tenant_id = :tenant_id and d.state = 'waiting' and d.run_at <= clock_timestamp()
     and u.state = 'active' and u.rights_until > clock_timestamp()
     and (u.retry_at is null or u.retry_at <= clock_timestamp())
), chosen as (
  select d.id from due join deliveries d on d.tenant_id = :tenant_id and d.id = due.id
   where due.place <= case when due.failures > 0 then 1 else :each end
     and d.state = 'waiting' and d.run_at <= clock_timestamp()
   order by due.place, d.run_at limit :limit for update of d skip locked
)
update deliveries d set attempts = d.attempts + 1, run_at = clock_timestamp() + :lease::interval
  from chosen c, subscriptions u, saved_searches s
 where d.tenant_id = :tenant_id and d.id = c.id
   and u.tenant_id = :tenant_id and u.saved_search_id = d.saved_search_id
   and s.tenant_id = :tenant_id and s.id = d.saved_search_id
returning d.id, d.saved_search_id, d.entry_id, d.fingerprint, d.finding, d.attempts, d.created_at, s.name, u.url,
          u.secret, u.failures, coalesce(s.request ->> 'include_superseded' = 'true', false) as include_superseded;

-- name: end
update deliveries set state = :state, ended_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and state = 'waiting';

-- name: retry
update deliveries set run_at = clock_timestamp() + :delay::interval
 where tenant_id = :tenant_id and id = :id and state = 'waiting';

-- name: note_success
update subscriptions set failures = 0, failing_since = null, retry_at = null, last_error = null,
                         last_delivered_at = clock_timestamp()
 where tenant_id = :tenant_id and saved_search_id = :saved_search_id;

-- name: note_failure
-- With a hold nothing more is sent before it is over. Who fails for too long, or is gone, is given up.
update subscriptions
   set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()), last_error = :error,
       retry_at = case when :hold::interval is null then retry_at else clock_timestamp() + :hold::interval end,
       state = case when :gone::boolean or failing_since < clock_timestamp() - :patience::interval then 'disabled'
                    else state end
 where tenant_id = :tenant_id and saved_search_id = :saved_search_id
returning state;

-- name: next_due
-- Seconds until something is due, at least 0; null: nothing waits that could be sent.
select extract(epoch from min(greatest(d.run_at, u.retry_at)) - clock_timestamp())::double precision
  from deliveries d join subscriptions u on u.tenant_id = :tenant_id and u.saved_search_id = d.saved_search_id
 where d.tenant_id = :tenant_id and d.state = 'waiting' and u.state = 'active' and u.rights_until > clock_timestamp();

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
       exists (select from deliveries d
                 join subscriptions u on u.tenant_id = :tenant_id and u.saved_search_id = d.saved_search_id
                where d.tenant_id = :tenant_id and d.state = 'waiting' and u.state = 'active'
                  and u.rights_until > clock_timestamp()) as deliveries;
