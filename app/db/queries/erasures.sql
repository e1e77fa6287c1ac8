-- Erasures: their receipts, their progress, the ids of what they erase, and the rows that they remove.

-- name: create
insert into erasures (tenant_id, id, kind, target, subject, requested_by)
values (:tenant_id, :id, :kind, :target, :subject, :requested_by);

-- name: hold
-- One process at a time works on an erasure.
select id, kind, target, subject, state, step, place, removed, found, derived, derived_total
  from erasures where tenant_id = :tenant_id and id = :id for update;

-- name: save
update erasures
   set state = :state, step = :step, place = :place, removed = :removed::jsonb, found = :found::jsonb,
       derived = :derived::jsonb, derived_total = :derived_total,
       subject = case when :state = 'done' then null else subject end,
       erased_at = case when :state <> 'running' then coalesce(erased_at, clock_timestamp()) end,
       checked_at = case when :looked::boolean then clock_timestamp() else checked_at end
 where tenant_id = :tenant_id and id = :id;

-- name: fetch
select id, kind, target, requested_by, state, removed, found, derived, derived_total, created_at, erased_at, checked_at
  from erasures where tenant_id = :tenant_id and id = any (:ids::uuid[]) order by created_at desc, id desc;

-- name: list
select created_at as key, id, octet_length(derived::text) + 2000 as bytes from erasures
 where tenant_id = :tenant_id
   and (:after_id::uuid is null or (created_at, id) < (:after_key::timestamptz, :after_id::uuid))
 order by created_at desc, id desc limit :limit;

-- name: find_target
-- Whether the target is one of the tenant's: it exists, was erased before, or the audit trail names it. `asset_id` is the asset
-- that a chunk belongs to.
select e.asset_id,
       e.id is not null or a.id is not null
         or exists (select from erasures x where x.tenant_id = :tenant_id and x.kind = :kind and x.target = :target)
         or exists (select from audit t where t.tenant_id = :tenant_id and t.outcome = 'done'
                       and t.action = any (:actions::text[]) and :target = any (t.subject_ids)) as is_known
  from (select) one
  left join entries e on :kind = 'entry' and e.tenant_id = :tenant_id and e.id = :target
  left join assets a on :kind = 'asset' and a.tenant_id = :tenant_id and a.id = :target;

-- name: add_item
insert into erasure_items (tenant_id, erasure_id, item, kind) values (:tenant_id, :id, :item, :kind) on conflict do nothing;

-- name: add_chunks
insert into erasure_items (tenant_id, erasure_id, item, kind)
select :tenant_id, :id, e.id, 'entry'
  from erasure_items i join entries e on e.tenant_id = :tenant_id and e.asset_id = i.item
 where i.tenant_id = :tenant_id and i.erasure_id = :id and i.kind = 'asset'
on conflict do nothing;

-- name: add_of_subject
-- What the subject created: the first record of an item in the audit trail is the subject's, and the trail was not pruned
-- since the item exists. An import names the importer, not the authors: it makes no item the subject's. One pass over the
-- trail: joined with itself, 200,000 rows took more than half a minute.
with firsts as materialized (
  select distinct on (u.id) u.id, a.actor, a.action, a.at
    from audit a cross join unnest(a.subject_ids) u (id)
   where a.tenant_id = :tenant_id and a.outcome = 'done'
     and a.action in ('entry.write', 'asset.upload', 'tenant.import')
   order by u.id, a.at, a.id
), own as materialized (
  select f.id, f.action, f.at from firsts f where f.actor = :subject and f.action <> 'tenant.import'
)
insert into erasure_items (tenant_id, erasure_id, item, kind)
select :tenant_id, :id, f.id, case f.action when 'entry.write' then 'entry' else 'asset' end
  from own f
  left join entries e on e.tenant_id = :tenant_id and e.id = f.id
  left join assets s on s.tenant_id = :tenant_id and s.id = f.id
 where coalesce(e.created_at, s.created_at, f.at)
       > (select min(t.at) from audit t where t.tenant_id = :tenant_id) - interval '1 hour'
on conflict do nothing;

-- name: changed_by_subject
-- What the subject changed and others created. The text can be anybody's.
select distinct 'changed' as relation, x.kind, x.id
  from audit a cross join unnest(a.subject_ids) u (id)
 cross join lateral (
   select 'entry' as kind, e.id from entries e where e.tenant_id = :tenant_id and e.id = u.id
   union all
   select 'asset', s.id from assets s where s.tenant_id = :tenant_id and s.id = u.id) x
 where a.tenant_id = :tenant_id and a.actor = :subject and a.outcome = 'done'
   and a.action in ('entry.write', 'entry.update', 'asset.upload', 'asset.update', 'tenant.import')
   and not exists (select from erasure_items i where i.tenant_id = :tenant_id and i.erasure_id = :id and i.item = u.id)
 order by 2, 3;

-- name: take_items
select item from erasure_items
 where tenant_id = :tenant_id and erasure_id = :id and kind = :kind and not is_erased order by item limit :limit;

-- name: list_items
select item from erasure_items
 where tenant_id = :tenant_id and erasure_id = :id and kind = :kind and item > :after order by item limit :limit;

-- name: mark_erased
update erasure_items set is_erased = true
 where tenant_id = :tenant_id and erasure_id = :id and item = any (:ids::uuid[]);

-- name: look_for_all
update erasure_items set is_erased = false where tenant_id = :tenant_id and erasure_id = :id and is_erased;

-- name: forget_items
delete from erasure_items where tenant_id = :tenant_id and erasure_id = :id;

-- name: words
-- The words of entries that are about to be erased.
select coalesce(array_agg(distinct l), '{}') from entries e cross join unnest(tsvector_to_array(e.lexemes)) l
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);

-- name: dependents
-- Items that depend on entries that are about to be erased, or have the content of one or of a former version of it, and are
-- not erased themselves.
with contents as materialized (
  select e.content_hash from entries e
   where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) and e.asset_id is null
  union
  select v.content_hash from former_entries v
   where v.tenant_id = :tenant_id and v.id = any (:ids::uuid[]) and v.asset_id is null and not v.absent
)
select distinct d.relation, 'entry' as kind, d.id
  from (select 'child' as relation, e.id from entries e
         where e.tenant_id = :tenant_id and e.parent_id = any (:ids::uuid[])
        union all
        select 'superseded', e.id from entries e
         where e.tenant_id = :tenant_id and e.superseded_by_id = any (:ids::uuid[])
        union all
        select 'derived', e.id from entries e
         where e.tenant_id = :tenant_id and e.source_ids && :ids::uuid[]
        union all
        select 'same_content', e.id from contents o
          join entries e on e.tenant_id = :tenant_id and e.content_hash = o.content_hash
         where e.external_id is null and e.asset_id is null
        union all
        select 'same_content', e.id from contents o
          join entries e on e.tenant_id = :tenant_id and e.content_hash = o.content_hash
         where e.external_id is not null) d
 where not exists (select from erasure_items i where i.tenant_id = :tenant_id and i.erasure_id = :id and i.item = d.id)
 order by 1, 3;

-- name: dependents_of_asset
select 'same_bytes' as relation, 'asset' as kind, a.id
  from assets o join assets a on a.tenant_id = :tenant_id and a.sha256 = o.sha256 and a.id <> o.id
 where o.tenant_id = :tenant_id and o.id = :asset_id
   and not exists (select from erasure_items i where i.tenant_id = :tenant_id and i.erasure_id = :id and i.item = a.id)
union all
select 'filter', 'saved_search', s.id from saved_searches s
 where s.tenant_id = :tenant_id and strpos(s.request::text, :asset_id::uuid::text) > 0
 order by 1, 3;

-- name: former_dependents
-- Former versions of other items: with the content of an erased one, present or former; derived from an erased one; and those
-- that were valid at some time after the subject had changed the item, since the subject's words may be in them. Of chunks,
-- the asset is named. `total` counts all.
with erased as materialized (
  select i.item from erasure_items i where i.tenant_id = :tenant_id and i.erasure_id = :id
), contents as materialized (
  select e.content_hash, e.asset_id is not null as is_chunk
    from erased i join entries e on e.tenant_id = :tenant_id and e.id = i.item
  union
  select v.content_hash, v.asset_id is not null from former_entries v
   where v.tenant_id = :tenant_id and not v.absent and (v.id in (table erased) or v.asset_id in (table erased))
), touched as materialized (
  select u.id, min(a.at) as at from audit a cross join unnest(a.subject_ids) u (id)
   where a.tenant_id = :tenant_id and a.actor = :subject::text and a.outcome = 'done'
     and a.action in ('entry.write', 'entry.update', 'asset.upload', 'asset.update', 'tenant.import')
   group by u.id
), others as materialized (
  select v.id, v.asset_id, v.version, v.valid_until, v.content_hash, v.source_ids from former_entries v
   where v.tenant_id = :tenant_id and not v.absent
     and not exists (select from erased i where i.item = v.id) and not exists (select from erased i where i.item = v.asset_id)
)
select d.*, count(*) over () as total
  from (select o.relation, case when o.asset_id is null then 'entry_version' else 'asset_versions' end as kind,
               coalesce(o.asset_id, o.id) as id, case when o.asset_id is null then o.version end as version
          from (select 'changed' as relation, v.* from others v join touched t on t.id = v.id where v.valid_until > t.at
                union all
                select 'changed', v.* from others v join touched t on t.id = v.asset_id where v.valid_until > t.at
                union all
                select 'same_content', v.* from others v
                  join contents c on c.content_hash = v.content_hash and c.is_chunk = (v.asset_id is not null)
                union all
                select 'derived', v.* from others v cross join unnest(v.source_ids) s (id) join erased i on i.item = s.id) o
         group by 1, 2, 3, 4) d
 order by d.relation, d.kind, d.id, d.version limit :limit;

-- name: traces
-- Rows of these entries and assets, by table.
select place, rows
  from (select 'entries' as place, count(*) as rows from entries
         where tenant_id = :tenant_id and (id = any (:entries::uuid[]) or asset_id = any (:assets::uuid[]))
        union all
        select 'assets', count(*) from assets where tenant_id = :tenant_id and id = any (:assets::uuid[])
        union all
        select 'embeddings', count(*) from embeddings where tenant_id = :tenant_id and entry_id = any (:entries::uuid[])
        union all
        select 'former_entries', count(*) from former_entries
         where tenant_id = :tenant_id and (id = any (:entries::uuid[]) or asset_id = any (:assets::uuid[]))
        union all
        select 'former_embeddings', count(*) from former_embeddings
         where tenant_id = :tenant_id
           and (entry_id = any (:entries::uuid[])
                or entry_id in (select f.id from former_entries f
                                 where f.tenant_id = :tenant_id and f.asset_id = any (:assets::uuid[])))
        union all
        select 'pending_embeddings', count(*) from pending_embeddings
         where tenant_id = :tenant_id and entry_id = any (:entries::uuid[])
        union all
        select 'entry_changes', count(*) from entry_changes where tenant_id = :tenant_id and entry_id = any (:entries::uuid[])
        union all
        select 'access_counts', count(*) from access_counts where tenant_id = :tenant_id and entry_id = any (:entries::uuid[])
        union all
        select 'feedback', count(*) from feedback where tenant_id = :tenant_id and entry_id = any (:entries::uuid[])
        union all
        select 'deliveries', count(*) from deliveries where tenant_id = :tenant_id and entry_id = any (:entries::uuid[])
        union all
        select 'source_items', count(*) from source_items where tenant_id = :tenant_id and asset_id = any (:assets::uuid[])
        union all
        select 'jobs', count(*) from jobs
         where tenant_id = :tenant_id and kind = 'ingest_asset' and subject = any (:assets::uuid[]::text[])) t
 where rows > 0;

-- name: delete_deliveries
delete from deliveries where tenant_id = :tenant_id and entry_id = any (:ids::uuid[]);

-- name: delete_entries
delete from entries where tenant_id = :tenant_id and id = any (:ids::uuid[]);

-- name: delete_tags
-- Counts of tags that no entry has any more, also of tags that the erased entries had before they were changed or deleted.
delete from tag_statistics
 where tenant_id = :tenant_id and entries <= 0
   and tag = any (array(select t.tag from tag_statistics t where t.tenant_id = :tenant_id and t.entries <= 0
                         order by t.tag limit :limit for update skip locked))
returning tag;

-- name: delete_words
-- Counts of words that fewer than two entries have. A search counts such words itself. A word in more entries than were
-- changed since the words were counted is in many still.
delete from lexeme_statistics l
 where l.tenant_id = :tenant_id and l.lexeme = any (:lexemes::text[])
   and l.entries <= 2 + (select coalesce(sum(c.changes), 0) from corpus_statistics c where c.tenant_id = :tenant_id)
   and (select count(*) from keyword.matching_entries(
          '{}', '{}', array[keyword.word_query(l.lexeme)], array[null]::text[], null::entry_filter, null, 2)) < 2
returning l.lexeme;

-- name: has_words
select exists (select from lexeme_statistics where tenant_id = :tenant_id);

-- name: left_words
select place, rows
  from (select 'tag_statistics' as place, count(*) as rows from tag_statistics
         where tenant_id = :tenant_id and tag = any (:tags::text[]) and entries <= 0
        union all
        select 'lexeme_statistics', count(*) from lexeme_statistics
         where tenant_id = :tenant_id and lexeme = any (:lexemes::text[])) t
 where rows > 0;

-- name: strip_receipts
-- Removes the ranks of erased entries from receipts, and the text and the filters of these searches. Of few entries, only
-- the receipts that contain one are read rank by rank. `|| ''` reads a ranking once,
-- not once for each rank.
with part as materialized (
  select s.id, s.ranking || ''::bytea as ranking
    from searches s where s.tenant_id = :tenant_id and s.id > :after order by s.id limit :limit
), few as materialized (
  select array_agg(uuid_send(i.item)) as wanted
    from (select item from erasure_items where tenant_id = :tenant_id and erasure_id = :id limit 21) i having count(*) <= 20
), named as materialized (
  select p.id, coalesce(string_agg(r.ranked, ''::bytea order by r.place) filter (where i.item is null), ''::bytea) as ranking
    from part p
   cross join lateral (
     select n as place, substring(p.ranking from 1 + n * :ranked_bytes::integer for :ranked_bytes::integer) as ranked
       from generate_series(0, length(p.ranking) / :ranked_bytes::integer - 1) n) r
    left join erasure_items i on i.tenant_id = :tenant_id and i.erasure_id = :id
                             and i.item = encode(substring(r.ranked for 16), 'hex')::uuid
   where not exists (select from few)
      or exists (select from few cross join unnest(few.wanted) w (item) where position(w.item in p.ranking) > 0)
   group by p.id having count(i.item) > 0
), stripped as (
  update searches s
     set ranking = n.ranking,
         receipt = (s.receipt - 'query') || jsonb_build_object('options', (s.receipt -> 'options') - :filters::text[])
    from named n where s.tenant_id = :tenant_id and s.id = n.id
  returning 1
)
select (select p.id from part p order by p.id desc limit 1) as last, (select count(*) from stripped) as rows;

-- name: look_at_receipts
with part as materialized (
  select s.id, s.ranking || ''::bytea as ranking
    from searches s where s.tenant_id = :tenant_id and s.id > :after order by s.id limit :limit
), few as materialized (
  select array_agg(uuid_send(i.item)) as wanted
    from (select item from erasure_items where tenant_id = :tenant_id and erasure_id = :id limit 21) i having count(*) <= 20
)
select (select p.id from part p order by p.id desc limit 1) as last,
       (select count(*) from part p
         where (not exists (select from few)
                or exists (select from few cross join unnest(few.wanted) w (item) where position(w.item in p.ranking) > 0))
           and exists (select from generate_series(0, length(p.ranking) / :ranked_bytes::integer - 1) n
                         join erasure_items i
                           on i.tenant_id = :tenant_id and i.erasure_id = :id
                          and i.item = encode(substring(p.ranking from 1 + n * :ranked_bytes::integer for 16), 'hex')::uuid
                      )) as rows;

-- name: traces_of_subject
select place, rows
  from (select 'searches' as place, count(*) as rows from searches where tenant_id = :tenant_id and subject = :subject
        union all
        select 'feedback', count(*) from feedback where tenant_id = :tenant_id and subject = :subject
        union all
        select 'saved_searches', count(*) from saved_searches where tenant_id = :tenant_id and owner = :subject
        union all
        select 'callers', count(*) from callers where tenant_id = :tenant_id and subject = :subject
        union all
        select 'audit', count(*) from audit where tenant_id = :tenant_id and actor = :subject
        union all
        select 'erasures', count(*) from erasures where tenant_id = :tenant_id and requested_by = :subject) t
 where rows > 0;

-- name: delete_caller
delete from callers where tenant_id = :tenant_id and subject = :subject;

-- name: delete_searches
delete from searches
 where tenant_id = :tenant_id
   and id = any (array(select s.id from searches s where s.tenant_id = :tenant_id and s.subject = :subject limit :limit));

-- name: delete_feedback
delete from feedback f
 using (select o.search_id, o.entry_id from feedback o where o.tenant_id = :tenant_id and o.subject = :subject limit :limit) o
 where f.tenant_id = :tenant_id and f.search_id = o.search_id and f.entry_id = o.entry_id and f.subject = :subject;

-- name: delete_saved_searches
-- Returns how many subscriptions and deliveries went with them; the statement sees them as they were.
with gone as (
  delete from saved_searches s
   where s.tenant_id = :tenant_id
     and s.id = any (array(select o.id from saved_searches o where o.tenant_id = :tenant_id and o.owner = :subject limit :limit))
  returning s.id
)
select (select count(*) from gone) as saved_searches,
       (select count(*) from subscriptions u where u.tenant_id = :tenant_id and u.saved_search_id in (select id from gone))
         as subscriptions,
       (select count(*) from deliveries d where d.tenant_id = :tenant_id and d.saved_search_id in (select id from gone))
         as deliveries;

-- name: rename_requester
update erasures set requested_by = 'erased:' || :id::uuid::text where tenant_id = :tenant_id and requested_by = :subject;

-- name: pseudonymise_actor
-- The owner's function changes the trail; the service cannot.
select tenancy.pseudonymise_actor(:id, :batch);
