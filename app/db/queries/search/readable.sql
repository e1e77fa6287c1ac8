-- Bounds of the number of entries that a caller may read, from the statistics of each principal.

-- name: count_readable
-- How many entries the caller may read: at least those that one of its principals may, and at most those of all together,
-- which counts entries with several of them several times.
select coalesce(max(p.entries) filter (where p.principal = 'everyone'), 0)
         + coalesce(max(p.entries) filter (where p.principal <> 'everyone'), 0) as least,
       coalesce(sum(p.entries), 0)::bigint as most
  from (select principal, sum(entries)::bigint as entries from corpus_statistics
         where tenant_id = :tenant_id and principal = any (current_principals()) group by principal) p;
