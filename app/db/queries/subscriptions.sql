-- Saved searches.

-- name: save
with before as (
  select request from saved_searches where tenant_id = :tenant_id and owner = :owner and name = :name
)
insert into saved_searches as s (tenant_id, id, owner, name, request)
values (:tenant_id, :id, :owner, :name, :request::jsonb)
on conflict (tenant_id, owner, name) do update set request = excluded.request
returning s.id, s.id = :id as is_new,
          coalesce((select b.request <> s.request from before b), false) as is_replaced;

-- name: lock_owner
-- Concurrent calls of an owner count one after another.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' ' || :owner::text, 0));

-- name: count_all
select count(*) from saved_searches where tenant_id = :tenant_id;

-- name: count
select count(*) from saved_searches where tenant_id = :tenant_id and owner = :owner and name <> :name;

-- name: fetch_saved
select s.id, s.name, s.request,
       exists (select from subscriptions u where u.tenant_id = :tenant_id and u.saved_search_id = s.id) as subscribed,
       s.created_at
  from saved_searches s where s.tenant_id = :tenant_id and s.owner = :owner and s.id = any (:ids::uuid[])
 order by array_position(:ids::uuid[], s.id);

-- name: list_saved
-- Names are ordered without regard to case, by their first 100 characters: a cursor contains them.
select k.{column} as key, k.id, k.bytes
  from (
    select s.id, s.created_at, left(lower(s.name), 100) as name, octet_length(s.request::text) as bytes
      from saved_searches s where s.tenant_id = :tenant_id and s.owner = :owner) k
 where :after_id::uuid is null or (k.{column}, k.id) {beyond} (:after_key, :after_id)
 order by k.{column} {direction}, k.id {direction} limit :limit;

-- name: delete_saved
delete from saved_searches where tenant_id = :tenant_id and owner = :owner and id = :id;

-- name: lock_tenant
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' subscriptions', 0));

-- name: list_other_urls
select url from subscriptions where tenant_id = :tenant_id and saved_search_id <> :id;

-- name: put
-- Subscribing again with a failing address does not shorten its hold. An address stays confirmed while it is in use; another
-- one, and one that was disabled, is asked. The pause between two challenges applies to the same address.
insert into subscriptions as u (tenant_id, saved_search_id, url, secret, rights_until, principals)
values (:tenant_id, :id, :url, :secret, clock_timestamp() + :rights::interval, :principals)
on conflict (tenant_id, saved_search_id) do update
   set url = excluded.url, secret = excluded.secret, rights_until = excluded.rights_until,
       principals = excluded.principals, state = 'active',
       failures = 0, failing_since = null, last_error = null,
       retry_at = case when u.url = excluded.url then u.retry_at end,
       confirmation = case when u.url = excluded.url and u.state = 'active' and u.confirmation = 'confirmed'
                        then 'confirmed' else 'pending' end,
       confirmed_at = case when u.url = excluded.url and u.state = 'active' then u.confirmed_at end,
       challenges = 0,
       challenge_at = case when u.url = excluded.url
                        then greatest(u.challenged_at + :pause::interval, clock_timestamp()) else clock_timestamp() end;

-- name: secrets_without
select saved_search_id, secret from subscriptions
 where tenant_id = :tenant_id and not starts_with(secret, :mark) order by saved_search_id for no key update;

-- name: replace_secret
update subscriptions set secret = :secret where tenant_id = :tenant_id and saved_search_id = :id;

-- name: fetch
-- Subscriptions of one owner, or of all owners if none is given.
select u.saved_search_id, u.url,
       case when u.state = 'active' and u.rights_until <= clock_timestamp() then 'paused' else u.state end as state,
       u.confirmation, u.confirmed_at, u.rights_until,
       (select count(*) from deliveries d
         where d.tenant_id = :tenant_id and d.saved_search_id = u.saved_search_id and d.state = 'waiting') as waiting,
       u.failures, u.failing_since, u.last_error, u.last_delivered_at, u.created_at, s.owner, s.name
  from subscriptions u join saved_searches s on s.tenant_id = :tenant_id and s.id = u.saved_search_id
 where u.tenant_id = :tenant_id and u.saved_search_id = any (:ids::uuid[])
   and (:owner::text is null or s.owner = :owner);

-- name: list
select u.created_at as key, u.saved_search_id as id from subscriptions u
 where u.tenant_id = :tenant_id
   and (:after_id::uuid is null or (u.created_at, u.saved_search_id) < (:after_key::timestamptz, :after_id::uuid))
 order by u.created_at desc, u.saved_search_id desc limit :limit;

-- name: delete
delete from subscriptions u using saved_searches s
 where u.tenant_id = :tenant_id and u.saved_search_id = :id and s.tenant_id = :tenant_id and s.id = u.saved_search_id
   and (:owner::text is null or s.owner = :owner);

-- name: set_rights
-- The owner has called: as a reader (rights until a later time), or without the right to read (rights until now).
update subscriptions u set rights_until = clock_timestamp() + :rights::interval, principals = :principals
  from saved_searches s
 where u.tenant_id = :tenant_id and s.tenant_id = :tenant_id and s.id = u.saved_search_id and s.owner = :owner;

-- name: active
select u.saved_search_id, s.request, u.principals from subscriptions u
  join saved_searches s on s.tenant_id = :tenant_id and s.id = u.saved_search_id
 where u.tenant_id = :tenant_id and u.state = 'active' and u.confirmation <> 'refused' order by u.saved_search_id;

-- name: hold_requests
-- The current requests of these searches, locked until the transaction ends.
select s.id, s.request from saved_searches s
 where s.tenant_id = :tenant_id and s.id = any (:ids::uuid[]) order by s.id for share;

-- name: changes
-- Entries to compare: those that have a vector or will not get one; those whose words were not compared yet; or all.
select c.entry_id, c.changed_at
  from entry_changes c
 cross join lateral (
   select not exists (select from pending_embeddings p join tenants t on t.id = p.tenant_id and t.model_id = p.model_id
                       where p.tenant_id = :tenant_id and p.entry_id = c.entry_id and p.attempts < 5) as ready) r
 where c.tenant_id = :tenant_id
   and case :kind::text when 'ready' then r.ready when 'words' then not c.words_checked else true end
 order by c.changed_at, c.entry_id limit :limit;

-- name: count_changes
select count(*) from entry_changes where tenant_id = :tenant_id;

-- name: match
-- The entries among these that the saved search finds: they pass its filter, and share a word or are similar.
select {e.core}, w.shared as shares_words,
       case when n.similarity >= :threshold then n.similarity end as similarity
  from entries e
 cross join lateral (
   select :by_words::boolean and (:required::text is null or e.lexemes @@ :required::text::tsquery) and exists (
     select from unnest(tsvector_to_array(asked_lexemes(e.language, :words, :query))) l
      where l = any (tsvector_to_array(e.lexemes))
     union all
     select from unnest(:alternatives::text[]) a where e.lexemes @@ a::tsquery) as shared) w
 cross join lateral (
   select 1 - min(p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions})) as similarity
     from embeddings p
    where p.tenant_id = :tenant_id and p.entry_id = e.id and p.model_id = {model_id}
      and :vector::halfvec({dimensions}) is not null) n
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) and entry_matches(e, :filter)
   and (w.shared or n.similarity >= :threshold);

-- name: finish_changes
-- An entry that was changed again in the meantime stays.
delete from entry_changes c using unnest(:ids::uuid[], :changed_ats::timestamptz[]) u (entry_id, changed_at)
 where c.tenant_id = :tenant_id and c.entry_id = u.entry_id and c.changed_at = u.changed_at;

-- name: note_words
update entry_changes c set words_checked = true
  from unnest(:ids::uuid[], :changed_ats::timestamptz[]) u (entry_id, changed_at)
 where c.tenant_id = :tenant_id and c.entry_id = u.entry_id and c.changed_at = u.changed_at;

-- name: forget_changes
-- Called when no subscription is active and not refused.
delete from entry_changes where tenant_id = :tenant_id
   and not exists (select from subscriptions u where u.tenant_id = :tenant_id and u.state = 'active'
                                                                  and u.confirmation <> 'refused');
