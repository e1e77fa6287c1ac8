-- The tags of a tenant's entries.

-- name: list
-- Counted are the entries that a search with the tag alone finds: the triggers' counts, and those of entries with readers that
-- the caller may read, less the hidden entries; these and those with readers have indexes of their own. Of chunks that repeat each other, a search finds the first one that has the tag.
with hidden as materialized (
  select t.tag, count(*) as entries
    from entries e cross join lateral (select u collate "C" as tag from unnest(e.tags) u) t
   where e.tenant_id = :tenant_id
     and (e.expires_at <= now() or e.superseded_by_id is not null or e.quarantined or e.repeats is not null)
     and t.tag >= :prefix and t.tag <= :prefix || repeat(chr(1114111), 100)
     and (e.expires_at <= now() or e.superseded_by_id is not null or e.quarantined
          or exists (
            select from entries o
             where o.tenant_id = :tenant_id and (o.id = e.repeats or (o.repeats = e.repeats and o.id < e.id))
               and o.text_hash = e.text_hash and t.tag = any (o.tags)
               and (o.expires_at is null or o.expires_at > now()) and o.superseded_by_id is null
               and not o.quarantined))
   group by t.tag
), counted as (
  select s.tag, s.entries from tag_statistics s
   where s.tenant_id = :tenant_id and s.tag >= :prefix and s.tag <= :prefix || repeat(chr(1114111), 100)
  union all
  select t.tag, count(*)
    from entries e cross join lateral (select u collate "C" as tag from unnest(e.tags) u) t
   where e.tenant_id = :tenant_id and e.readers is not null
     and t.tag >= :prefix and t.tag <= :prefix || repeat(chr(1114111), 100)
   group by t.tag
)
select k.tag, k.count
  from (
    select s.tag, s.entries - coalesce(h.entries, 0) as count
      from (select tag, sum(entries)::bigint as entries from counted group by tag) s left join hidden h on h.tag = s.tag
     where s.entries > coalesce(h.entries, 0)) k
 where :after_tag::text is null
    or k.{column} {beyond} :after_key or (k.{column} = :after_key and k.tag > :after_tag)
 order by k.{column} {direction}, k.tag limit :limit;
