-- Details of entries and assets for the console.

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
select h.heading ->> 2 as title, (h.heading ->> 1)::integer as level, (h.heading ->> 0)::integer as start,
       null::integer as end
  from assets a, jsonb_path_query(a.outline, 'strict $.headings[*] ? (@[1] <= 3)', '{}', true) h (heading)
 where a.tenant_id = :tenant_id and a.id = :id limit :limit;

-- name: entry_names
select e.id, coalesce(e.title, left(e.content, 120)) as title, e.entry_type, a.name as asset_name
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) and not e.quarantined;
