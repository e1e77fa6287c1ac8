-- What a tenant has stored and embedded, as its limits count it.

-- name: stored
-- The usage that counts against the limits of entries and bytes.
select coalesce(c.entries, 0)::bigint as entries, (coalesce(c.characters, 0) + coalesce(a.bytes, 0))::bigint as bytes
  from (select sum(entries) as entries, sum(characters) as characters
          from corpus_statistics where tenant_id = :tenant_id) c
  left join asset_statistics a on a.tenant_id = :tenant_id;

-- name: lock
-- Until the transaction ends, other transactions near a limit of the tenant wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid::text, 14));

-- name: tokens_today
select tokens from embedding_usage
 where tenant_id = :tenant_id and day = (clock_timestamp() at time zone 'UTC')::date;

-- name: add_tokens
insert into embedding_usage as u (tenant_id, day, tokens)
values (:tenant_id, (clock_timestamp() at time zone 'UTC')::date, :tokens)
on conflict (tenant_id, day) do update set tokens = u.tokens + excluded.tokens;

-- name: purge
delete from embedding_usage
 where tenant_id = :tenant_id and day < (clock_timestamp() at time zone 'UTC')::date - :days::integer;
