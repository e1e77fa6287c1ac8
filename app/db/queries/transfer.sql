-- Export of a tenant as lines of JSON, and import of such lines.

-- name: assets
-- One JSON object per row, without the bytes.
select a.id, a.byte_size, to_jsonb(a)::text as line
  from (select {stored_asset}, sha256, extracted_text, given_title, outline from assets where tenant_id = :tenant_id order by id) a;

-- name: original_part
select translate(encode(substring(original from :start::integer for :length::integer), 'base64'), E'\n', '')
  from assets where tenant_id = :tenant_id and id = :id;

-- name: entries
-- One JSON object per row; vectors of the model in use in pgvector's binary format, which is lossless.
select (to_jsonb(e)
        || jsonb_build_object('accesses', coalesce((select a.accesses from access_counts a
                                                     where a.tenant_id = :tenant_id and a.entry_id = e.id), 0))
        || case when not :with_vectors::boolean then '{}' else jsonb_build_object('vectors', (
             select coalesce(jsonb_agg(jsonb_build_object(
                      'passage', k.passage, 'char_start', k.char_start, 'char_end', k.char_end,
                      'vector', translate(encode(halfvec_send(k.embedding), 'base64'), E'\n', '')) order by k.passage), '[]')
               from embeddings k
              where k.tenant_id = :tenant_id and k.entry_id = e.id and k.model_id = :model_id)) end)::text as line
  from (select {stored}, repeats from entries where tenant_id = :tenant_id order by id) e;

-- name: saved_searches
select (to_jsonb(s) - 'tenant_id')::text as line from saved_searches s where tenant_id = :tenant_id order by id;

-- name: feedback
select (to_jsonb(f) - 'tenant_id')::text as line from feedback f
 where tenant_id = :tenant_id order by search_id, entry_id, subject;

-- name: sources
select (to_jsonb(s) - 'tenant_id')::text as line from sources s where tenant_id = :tenant_id order by name;

-- name: source_items
select (to_jsonb(i) - 'tenant_id')::text as line from source_items i
 where tenant_id = :tenant_id order by source, external_id;

-- name: same_asset
-- The asset that a line describes: by id, otherwise by external_id within its source or by content; `identical`: nothing has to be done.
select a.id, a.sha256 = r.sha256 and a.generation = r.generation and a.updated_at = r.updated_at as identical
  from jsonb_populate_record(null::assets, :line::jsonb) r
  join assets a on a.tenant_id = :tenant_id
   and (a.id = r.id
        or a.readers is not distinct from r.readers
           and ((a.external_id = r.external_id and a.source is not distinct from r.source)
                or (r.external_id is null and a.external_id is null and a.sha256 = r.sha256)))
 order by a.id <> r.id limit 1 for update of a;

-- name: put_asset
insert into assets (tenant_id, {stored_asset except pages_without_text, places_without_text}, pages_without_text,
                    places_without_text, sha256, original, extracted_text, given_title, outline)
select :tenant_id, {r.stored_asset except pages_without_text, places_without_text}, coalesce(r.pages_without_text, '{}'),
       coalesce(r.places_without_text, '{}'), r.sha256, :original, r.extracted_text, r.given_title, r.outline
  from jsonb_populate_record(null::assets, :line::jsonb) r
on conflict (tenant_id, id) do update
   set {stored_asset = excluded.stored_asset except id}, sha256 = excluded.sha256, original = excluded.original,
       extracted_text = excluded.extracted_text, given_title = excluded.given_title, outline = excluded.outline;

-- name: drop_chunks
delete from entries where tenant_id = :tenant_id and asset_id = :id;

-- name: same_entries
-- The existing entry that each line describes: by id, otherwise by external_id or content.
select r.id, same.id as present
  from jsonb_populate_recordset(null::entries, :lines::jsonb) r
 cross join lateral (
   (select e.id from entries e where e.tenant_id = :tenant_id and e.id = r.id)
   union all
   (select e.id from entries e
     where r.external_id is not null and e.tenant_id = :tenant_id and e.external_id = r.external_id
       and e.readers is not distinct from r.readers)
   union all
   (select e.id from entries e
     where r.asset_id is not null and e.tenant_id = :tenant_id and e.asset_id = r.asset_id
       and e.chunk_index = r.chunk_index)
   union all
   (select e.id from entries e
     where r.external_id is null and r.asset_id is null and e.tenant_id = :tenant_id
       and e.content_hash = sha256(convert_to(r.content, 'UTF8')) and e.external_id is null and e.asset_id is null
       and e.readers is not distinct from r.readers)
   limit 1) same;

-- name: update_entries
-- All fields except references to entries that may follow later.
with given as (
  select r.*, sha256(convert_to(r.content, 'UTF8')) as content_sha,
         sha256(convert_to(coalesce(r.title || E'\n\n', '') || r.content, 'UTF8')) as text_sha
    from jsonb_populate_recordset(null::entries, :lines::jsonb) r
), present as materialized (
  select e.id, e.text_hash from entries e
   where e.tenant_id = :tenant_id and e.id in (select id from given) order by e.id for update
)
update entries e
   set {stored = g.stored except id, parent_id, superseded_by_id, quarantined},
       content_hash = g.content_sha, text_hash = g.text_sha, quarantined = coalesce(g.quarantined, e.quarantined),
       parent_id = case when g.parent_id is not null then e.parent_id end,
       superseded_by_id = case when g.superseded_by_id is not null then e.superseded_by_id end
  from given g join present p on p.id = g.id
 where e.tenant_id = :tenant_id and e.id = g.id
   and ({e.stored except id, parent_id, superseded_by_id, quarantined, readers, writers},
        e.quarantined, e.readers, e.writers, e.parent_id is not null and g.parent_id is null,
        e.superseded_by_id is not null and g.superseded_by_id is null)
       is distinct from
       ({g.stored except id, parent_id, superseded_by_id, quarantined, readers, writers},
        coalesce(g.quarantined, e.quarantined), case when g.asset_id is null then g.readers else e.readers end,
        case when g.asset_id is null then g.writers else e.writers end, false, false)
returning e.id, p.text_hash <> e.text_hash as text_changed;

-- name: insert_entries
-- A chunk repeats the same chunk as those that other assets with the same bytes already have here.
insert into entries (tenant_id, {stored except parent_id, superseded_by_id, quarantined, readers, writers},
                     quarantined, readers, writers, content_hash, text_hash, repeats)
select :tenant_id, {r.stored except parent_id, superseded_by_id, quarantined, readers, writers},
       coalesce(r.quarantined, false), case when r.asset_id is null then r.readers else o.readers end,
       case when r.asset_id is null then r.writers else o.writers end, sha256(convert_to(r.content, 'UTF8')),
       sha256(convert_to(coalesce(r.title || E'\n\n', '') || r.content, 'UTF8')),
       coalesce((select nullif(coalesce(y.repeats, y.id), r.id)
                   from assets a
                   join assets s on s.tenant_id = :tenant_id and s.sha256 = a.sha256 and s.id <> a.id
                                and s.status = 'indexed'
                   join entries y on y.tenant_id = :tenant_id and y.asset_id = s.id and y.chunk_index = r.chunk_index
                  where a.tenant_id = :tenant_id and a.id = r.asset_id and a.status = 'indexed'
                    and y.content_hash = sha256(convert_to(r.content, 'UTF8'))
                  order by y.repeats is not null, y.id limit 1), r.repeats)
  from jsonb_populate_recordset(null::entries, :lines::jsonb) r
  left join assets o on o.tenant_id = :tenant_id and o.id = r.asset_id;

-- name: link_entries
-- Parents and successors, if they exist; returns the entries that changed, and the number of broken links.
with given as materialized (
  select r.id, r.parent_id, r.superseded_by_id, r.source_ids, p.id as parent, s.id as successor
    from jsonb_populate_recordset(null::entries, :lines::jsonb) r
    left join entries p on p.tenant_id = :tenant_id and p.id = r.parent_id
    left join entries s on s.tenant_id = :tenant_id and s.id = r.superseded_by_id
), linked as (
  update entries e set parent_id = g.parent, superseded_by_id = g.successor, source_ids = g.source_ids
    from given g
   where e.tenant_id = :tenant_id and e.id = g.id
     and (e.parent_id, e.superseded_by_id, e.source_ids) is distinct from (g.parent, g.successor, g.source_ids)
  returning e.id
)
select array(select id from linked) as linked,
       coalesce(sum((parent_id is not null and parent is null)::integer
                    + (superseded_by_id is not null and successor is null)::integer), 0)::integer as dropped
  from given;

-- name: set_accesses
insert into access_counts as a (tenant_id, entry_id, accesses)
select :tenant_id, u.id, u.accesses from unnest(:ids::uuid[], :accesses::bigint[]) u (id, accesses) order by u.id
on conflict (tenant_id, entry_id) do update set accesses = excluded.accesses where a.accesses <> excluded.accesses
returning entry_id;

-- name: mark_lacking
-- Queues the entries without a vector of the tenant's model; returns them.
insert into pending_embeddings (tenant_id, model_id, entry_id)
select :tenant_id, t.model_id, i.id
  from tenants t, unnest(:ids::uuid[]) i (id)
 where t.id = :tenant_id
   and not exists (select from embeddings k
                    where k.tenant_id = :tenant_id and k.entry_id = i.id and k.model_id = t.model_id)
on conflict do nothing;

-- name: put_saved_search
insert into saved_searches select (jsonb_populate_record(null::saved_searches,
                                     :line::jsonb || jsonb_build_object('tenant_id', :tenant_id::uuid))).*
on conflict do nothing;

-- name: put_feedback
insert into feedback select (jsonb_populate_record(null::feedback,
                               :line::jsonb || jsonb_build_object('tenant_id', :tenant_id::uuid))).*
on conflict do nothing;

-- name: put_source
insert into sources select (jsonb_populate_record(null::sources,
                              :line::jsonb || jsonb_build_object('tenant_id', :tenant_id::uuid))).*
on conflict do nothing;

-- name: put_source_item
insert into source_items select (jsonb_populate_record(null::source_items,
                                   :line::jsonb || jsonb_build_object('tenant_id', :tenant_id::uuid))).*
on conflict do nothing;

-- name: some_assets
select id from assets where tenant_id = :tenant_id order by id limit :limit;

-- name: clear_assets
delete from assets where tenant_id = :tenant_id and id = any (:ids::uuid[]);

-- name: clear_entries
delete from entries
 where tenant_id = :tenant_id
   and id in (select id from entries where tenant_id = :tenant_id order by id limit :limit for update)
returning id;
