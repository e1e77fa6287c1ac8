-- What has changed since a search.

-- name: changed_settings
-- The names of settings that were changed since a time, or that the service has tuned.
select distinct coalesce(f.name, 'tuned') as name
  from audit a
  left join lateral jsonb_array_elements_text(a.detail -> 'fields') f (name) on true
 where a.tenant_id = :tenant_id and a.at > :at and a.outcome = 'done'
   and (a.action in ('settings.update', 'settings.tune') or a.action = 'tenant.import' and a.detail ->> 'part' = 'settings')
 order by 1;

-- name: traces
-- What is there of entries of which a search ranked these versions: the entry, whether it is the version that was ranked,
-- and whether a version of that time is kept. The times of receipts are rounded.
select w.id, e.id is not null as exists, coalesce(abs(extract(epoch from e.updated_at - w.updated_at)) < 0.00001, false) as unchanged,
       exists (select from former_entries v
                where v.tenant_id = :tenant_id and v.id = w.id and not v.absent
                  and abs(extract(epoch from v.updated_at - w.updated_at)) < 0.00001) as kept
  from unnest(:ids::uuid[], :times::timestamptz[]) w (id, updated_at)
  left join entries e on e.tenant_id = :tenant_id and e.id = w.id;
