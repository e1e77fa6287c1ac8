-- Entries: reading, paging, writing, deleting, and finding related entries.

-- name: fetch
with model as materialized (select model_id from tenants where id = :tenant_id),
waiting as materialized (
  select p.entry_id from pending_embeddings p
   where p.tenant_id = :tenant_id and p.entry_id = any (:ids::uuid[]) and p.model_id = (select model_id from model))
select {e.written}, a.name as asset_name, e.chunk_index, e.quarantined,
       case when e.id in (select entry_id from waiting) then 'pending'
            -- With a limit it is looked up for each entry, where `exists` may read all vectors of the tenant.
            when (select true from embeddings k
                   where k.tenant_id = :tenant_id and k.entry_id = e.id and k.model_id = (select model_id from model) limit 1)
            then 'ready' else 'none' end as embedding_status,
       e.version, e.created_at, e.updated_at
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);

-- name: lock
{text of fetch} order by e.id for update of e;

-- name: list
-- Titles are ordered without regard to case, by their first 100 characters: a cursor contains them.
select p.key, p.id, b.bytes
  from (
    select k.{column} as key, k.id
      from (
        select e.id, e.created_at, e.updated_at, left(lower(coalesce(e.title, '')), 100) as title from entries e
         where e.tenant_id = :tenant_id
           and (:entry_type::text is null or e.entry_type = :entry_type)
           and (:tag::text is null or :tag = any (e.tags))
           and (:asset_id::uuid is null or e.asset_id = :asset_id)
           and (:external_id::text is null or e.external_id = :external_id)
           and (:source::text is null or (e.asset_id is not null) = (:source = 'asset'))
           and (:include_expired or e.expires_at is null or e.expires_at > now())
           and (:include_quarantined or not e.quarantined)) k
     where :after_id::uuid is null or (k.{column}, k.id) {beyond} (:after_key, :after_id)
     order by k.{column} {direction}, k.id {direction} limit :limit) p
 cross join lateral (
   select octet_length(e.content) + octet_length(e.metadata::text) as bytes from entries e
    where e.tenant_id = :tenant_id and e.id = p.id) b
 order by p.key {direction}, p.id {direction};

-- name: find_same
-- The entry that each draft duplicates: the one with its external_id or, for a draft without one, with its content. Of several
-- with the external_id the one with the draft's readers is first; the same content with other readers is another entry.
select d.place, same.id
  from unnest(:external_ids::text[], :content_hashes::bytea[], :readers::jsonb[], :given::boolean[])
         with ordinality d (external_id, content_hash, readers, given, place)
 cross join lateral (
   (select e.id from entries e
     where d.external_id is not null and e.tenant_id = :tenant_id and e.external_id = d.external_id
     order by coalesce(to_jsonb(e.readers), 'null') = coalesce(d.readers, 'null') desc, e.created_at, e.id)
   union all
   (select e.id from entries e
     where d.external_id is null and e.tenant_id = :tenant_id and e.content_hash = d.content_hash
       and e.external_id is null and e.asset_id is null
       and (not d.given or coalesce(to_jsonb(e.readers), 'null') = coalesce(d.readers, 'null'))
     order by e.readers is not null, e.created_at, e.id)
   union all
   (select e.id from entries e
     where d.external_id is null and e.tenant_id = :tenant_id and e.content_hash = d.content_hash
       and e.external_id is not null
       and (not d.given or coalesce(to_jsonb(e.readers), 'null') = coalesce(d.readers, 'null'))
     order by e.readers is not null, e.created_at, e.id)
   limit 1) same;

-- name: plan_each_time
select set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: plan_as_usual
select set_config('plan_cache_mode', 'auto', true);

-- name: find_twin
-- The entry with which the entry :id would share its identity if it had these readers.
select o.id from entries e join entries o on o.tenant_id = :tenant_id and o.external_id = e.external_id and o.id <> e.id
 where e.tenant_id = :tenant_id and e.id = :id and o.readers is not distinct from :readers::text[]
union all
select o.id from entries e join entries o on o.tenant_id = :tenant_id and o.content_hash = e.content_hash and o.id <> e.id
 where e.tenant_id = :tenant_id and e.id = :id and o.readers is not distinct from :readers::text[]
   and e.external_id is null and o.external_id is null and o.asset_id is null
limit 1;

-- name: readers
select e.id, e.readers from entries e where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);

-- name: lock_successions
-- Until the transaction ends, other transactions of the tenant that supersede an entry wait: of two that would supersede
-- each other's entries, the second sees what the first has written.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' successions', 0));

-- name: successor
select superseded_by_id from entries where tenant_id = :tenant_id and id = :id;

-- name: insert
-- Every writer inserts the same entries in the same order, which prevents deadlocks; their times keep the order of the
-- input.
insert into entries (tenant_id, {written}, content_hash, text_hash, created_at, updated_at)
select :tenant_id, {r.written},
       sha256(convert_to(r.content, 'UTF8')), sha256(convert_to(coalesce(r.title || E'\n\n', '') || r.content, 'UTF8')),
       t.at, t.at
  from jsonb_populate_recordset(null::entries, :rows::jsonb) with ordinality r
 cross join lateral (select statement_timestamp() + r.ordinality * interval '1 microsecond' as at) t
 order by r.external_id collate "C", r.content collate "C"
on conflict do nothing
returning id;

-- name: update
update entries e
   set {written = r.written except id, asset_id},
       content_hash = sha256(convert_to(r.content, 'UTF8')),
       text_hash = sha256(convert_to(coalesce(r.title || E'\n\n', '') || r.content, 'UTF8')),
       version = e.version + 1, updated_at = clock_timestamp()
  from jsonb_populate_recordset(null::entries, :rows::jsonb) r
 where e.tenant_id = :tenant_id and e.id = r.id;

-- name: delete
delete from entries where tenant_id = :tenant_id and id = :id;

-- name: derived
-- Of the entries that a search finds, as `related` shows them.
select e.id
  from keyword.derived_entries(:id, :limit) with ordinality d (entry_id, place)
  join entries e on e.tenant_id = :tenant_id and e.id = d.entry_id
 order by d.place;

-- name: purge_expired
-- Only if the tenant has set a time. An entry stays while an entry that it supersedes exists: without it the older one
-- would be found again.
with gone as (
  select e.id from entries e
   where e.tenant_id = :tenant_id
     and e.expires_at < clock_timestamp() - make_interval(days => (
           select (t.settings ->> 'purge_expired_after_days')::integer from tenants t where t.id = :tenant_id))
     and not exists (select from entries o where o.tenant_id = :tenant_id and o.superseded_by_id = e.id)
   order by e.expires_at, e.id limit :limit for update skip locked
)
delete from entries e using gone g where e.tenant_id = :tenant_id and e.id = g.id
returning e.id;

-- name: related
-- The parent, then siblings (for a chunk the other chunks of the asset), then children, then its source entries and the
-- entries derived from it, then entries that share tags: explicit relations come before inferred ones. `total` counts
-- at most `most` entries of each kind.
with origin as (
  select * from entries where tenant_id = :tenant_id and id = :id
), visible as (
  select e.id, e.parent_id, e.asset_id, e.chunk_index, e.created_at
    from entries e, origin o
   where e.tenant_id = :tenant_id and e.id <> o.id
     and (e.id = o.parent_id or e.parent_id = o.parent_id or e.parent_id = o.id
          or (e.asset_id = o.asset_id and e.chunk_index between o.chunk_index - :most and o.chunk_index + :most))
     and is_live(e.quarantined, e.expires_at, now()) and e.superseded_by_id is null
), ranked as (
  select v.id, 'parent' as relationship, null::integer as overlap_count, 1 as place, 0::bigint as nearness
    from visible v, origin o where v.id = o.parent_id
  union all
  select v.id, 'sibling', null, 2,
         case when v.asset_id = o.asset_id then abs(v.chunk_index - o.chunk_index) * 2
                   + (v.chunk_index < o.chunk_index)::integer
              else row_number() over (order by v.created_at, v.id) end
    from visible v, origin o
   where v.id is distinct from o.parent_id and (v.parent_id = o.parent_id or v.asset_id = o.asset_id)
  union all
  select v.id, 'child', null, 3, row_number() over (order by v.created_at, v.id)
    from visible v, origin o where v.parent_id = o.id
  union all
  select e.id, 'source', null, 4, array_position(o.source_ids, e.id)
    from origin o join entries e on e.tenant_id = :tenant_id and e.id = any (o.source_ids) and e.id <> o.id
   where is_live(e.quarantined, e.expires_at, now()) and e.superseded_by_id is null
  union all
  select d.entry_id, 'derived', null, 5, d.place
    from origin o cross join lateral keyword.derived_entries(o.id, :most) with ordinality d (entry_id, place)
  union all
  select t.entry_id, 'tag_overlap', t.overlap_count, 6, row_number() over (order by t.overlap_count desc)
    from origin o cross join lateral keyword.tag_overlaps(o.tags, o.id, :most) t
), firsts as (
  select distinct on (id) id, relationship, overlap_count, place, nearness from ranked order by id, place
)
select f.id, f.relationship, f.overlap_count, count(*) over () as total from firsts f
 order by f.place, f.overlap_count desc nulls first, f.nearness, f.id limit :limit;

-- name: list_tags
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
               and is_live(o.quarantined, o.expires_at, now()) and o.superseded_by_id is null))
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

-- name: vectors
-- An entry's passages by model, and whether vectors are still to come.
select m.provider, m.name, m.dimensions, m.id = t.model_id as is_current,
       case when p.attempts < 5 then 'pending' when p.attempts >= 5 then 'refused'
            when k.passages is not null then 'ready' else 'none' end as state,
       coalesce(p.attempts, 0) as attempts, coalesce(k.passages, '{}') as passages
  from tenants t
 cross join embedding_models m
  left join pending_embeddings p on p.tenant_id = :tenant_id and p.model_id = m.id and p.entry_id = :id
  left join lateral (
    select array_agg(array[char_start, char_end] order by passage) as passages
      from embeddings where tenant_id = :tenant_id and entry_id = :id and model_id = m.id) k on true
 where t.id = :tenant_id and (m.id = t.model_id or p.entry_id is not null or k.passages is not null)
 order by is_current desc, m.id;

-- name: connections
-- Links from and to an entry, each with its kind; `limit` bounds the links to it.
with origin as (
  select parent_id, superseded_by_id, source_ids from entries where tenant_id = :tenant_id and id = :id
), found as (
  select o.parent_id as id, 'parent' as relation, 1 as rank, 1::bigint as place from origin o
  union all
  select o.superseded_by_id, 'superseded_by', 2, 1 from origin o
  union all
  select s.id, 'source', 3, s.place from origin o, unnest(o.source_ids) with ordinality s (id, place)
  union all
  (select e.id, 'child', 4, row_number() over (order by e.created_at, e.id) from entries e
    where e.tenant_id = :tenant_id and e.parent_id = :id order by e.created_at, e.id limit :limit)
  union all
  (select e.id, 'supersedes', 5, row_number() over (order by e.created_at, e.id) from entries e
    where e.tenant_id = :tenant_id and e.superseded_by_id = :id order by e.created_at, e.id limit :limit)
)
select f.relation, e.id, e.entry_type, e.title, left(e.content, 160) as excerpt
  from found f join entries e on e.tenant_id = :tenant_id and e.id = f.id
 where :include_quarantined or not e.quarantined
 order by f.rank, f.place;

-- name: accesses
select accesses from access_counts where tenant_id = :tenant_id and entry_id = :id;

-- name: text_part
select substring(extracted_text from :start::integer + 1 for :size) as text, length(extracted_text) as total
  from assets where tenant_id = :tenant_id and id = :id;

-- name: chunks
-- Chunks that overlap a part of the text. Their metadata can be edited, so any value must be expected.
select c.id, c.chunk_index, c.title, c.char_start, c.char_end, c.page
  from (select e.id, e.chunk_index, e.title,
               case when jsonb_typeof(e.metadata -> 'char_start') = 'number'
                    then (e.metadata ->> 'char_start')::numeric end as char_start,
               case when jsonb_typeof(e.metadata -> 'char_end') = 'number'
                    then (e.metadata ->> 'char_end')::numeric end as char_end,
               e.metadata ->> 'page' as page
          from entries e where e.tenant_id = :tenant_id and e.asset_id = :id) c
 where c.char_start < :end::integer and c.char_end > :start::integer
 order by c.chunk_index limit 2000;

-- name: document_part
-- Headings, tables and pages that begin in a part of a text, and tables that begin before it and reach into it. `header` is
-- the header of such a table.
select substring(a.extracted_text from :start::integer + 1 for :size) as text, length(a.extracted_text) as total,
       jsonb_path_query_array(a.outline, 'strict $.headings[*] ? (@[0] >= $start && @[0] < $end)', place.vars,
                              true) as headings,
       jsonb_path_query_array(a.outline, 'strict $.headings[*] ? (@[1] <= 3)', '{}', true) as contents,
       (select jsonb_agg(jsonb_build_array(t -> 0, t -> 2, case when (t ->> 0)::integer < :start::integer then
                 substring(a.extracted_text from (t ->> 0)::integer + 1 for (t ->> 1)::integer - (t ->> 0)::integer) end))
          from jsonb_path_query(a.outline, 'strict $.tables[*] ? (@[0] < $end && @[2] > $start)', place.vars, true) t) as tables,
       (select jsonb_agg(jsonb_build_array(p.number, p.span -> 0) order by p.number)
          from jsonb_array_elements(a.outline -> 'pages') with ordinality p (span, number)
         where (p.span ->> 0)::integer >= :start::integer
           and (p.span ->> 0)::integer < :start::integer + :size) as pages
  from assets a
 cross join lateral (select jsonb_build_object('start', :start::integer, 'end', :start::integer + :size) as vars) place
 where a.tenant_id = :tenant_id and a.id = :id;

-- name: chunk_span
select case when jsonb_typeof(metadata -> 'char_start') = 'number' then (metadata ->> 'char_start')::numeric end as first,
       case when jsonb_typeof(metadata -> 'char_end') = 'number' then (metadata ->> 'char_end')::numeric end as last
  from entries where tenant_id = :tenant_id and asset_id = :id and chunk_index = :index;

-- name: page
-- Where a page of an asset's text starts and ends; both null if it has no such page.
select (a.outline #>> array['pages', (:number::integer - 1)::text, '0'])::integer as start,
       (a.outline #>> array['pages', (:number::integer - 1)::text, '1'])::integer as end
  from assets a where a.tenant_id = :tenant_id and a.id = :id;

-- name: sections
-- Headings that contain a text, in any case, the equal ones first; `end` is where the next heading of the same or a
-- higher level starts, null for the end of the text.
with headings as materialized (
  select h.place, (h.heading ->> 0)::integer as start, (h.heading ->> 1)::integer as level, h.heading ->> 2 as title
    from assets a, jsonb_array_elements(a.outline -> 'headings') with ordinality h (heading, place)
   where a.tenant_id = :tenant_id and a.id = :id
), found as (
  select * from headings where position(lower(:heading) in lower(title)) > 0
   order by lower(title) <> lower(:heading), place limit :limit
)
select f.title, f.level, f.start,
       (select min(h.start) from headings h where h.place > f.place and h.level <= f.level) as end
  from found f order by lower(f.title) <> lower(:heading), f.place;

-- name: contents
-- The first headings of the upper levels of an asset's text.
select h.heading ->> 2 as title, (h.heading ->> 1)::integer as level, (h.heading ->> 0)::integer as start
  from assets a, jsonb_path_query(a.outline, 'strict $.headings[*] ? (@[1] <= 3)', '{}', true) h (heading)
 where a.tenant_id = :tenant_id and a.id = :id limit :limit;

-- name: entry_names
select e.id, coalesce(e.title, left(e.content, 120)) as title, e.entry_type, a.name as asset_name
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) and not e.quarantined;
