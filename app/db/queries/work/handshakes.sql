-- Challenges to the endpoints of subscriptions, and turns at their hosts.

-- name: claim
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

-- name: postpone
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
