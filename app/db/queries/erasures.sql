-- Erasures: their receipts, their progress, and the ids of what they erase.

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
   and (:before_id::uuid is null or (created_at, id) < (:before_at::timestamptz, :before_id::uuid))
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
