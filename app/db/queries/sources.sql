-- Sources.

-- name: fetch
-- A chunk that awaits its vector is found by its words, so it does not count as missing. An asset that was deleted since the
-- source agreed took its item with it. The writers of a source see all of its items; for others only those count that they
-- may read.
select s.name, s.origin, s.run, n.items, s.listed_at, s.agreed_at,
       s.agreed_run = s.run and n.items = c.indexed + c.pending + c.failed + c.refused as agrees, s.readers, s.writers,
       s.created_at, c.indexed::integer, c.pending::integer, c.failed::integer, c.refused::integer,
       (n.items - (c.indexed + c.pending + c.failed + c.refused))::integer as missing
  from sources s
 cross join lateral (
    select count(*) as seen,
           count(*) filter (where i.problem is not null) as refused,
           count(*) filter (where i.problem is null and i.stored_digest = i.digest and a.status = 'indexed') as indexed,
           count(*) filter (where i.problem is null and i.stored_digest = i.digest and a.status = 'failed') as failed,
           count(*) filter (where i.problem is null and i.stored_digest = i.digest
                              and a.status in ('pending', 'processing')) as pending
      from source_items i left join assets a on a.tenant_id = :tenant_id and a.id = i.asset_id
     where i.tenant_id = :tenant_id and i.source = s.name) c
 cross join lateral (
   select (case when s.writers is null or audience(s.writers) && current_principals() then s.items else c.seen end)::integer
            as items) n
 where s.tenant_id = :tenant_id and s.name = :name;

-- name: list
select s.name, s.origin, s.run, n.items, s.listed_at, s.agreed_at,
       s.agreed_run = s.run and n.items = n.seen as agrees, s.readers, s.writers, s.created_at
  from sources s
 cross join lateral (select count(*) as seen from source_items i where i.tenant_id = :tenant_id and i.source = s.name) c
 cross join lateral (
   select c.seen, (case when s.writers is null or audience(s.writers) && current_principals() then s.items else c.seen
                    end)::integer as items) n
 where s.tenant_id = :tenant_id and (:after::text is null or s.name > :after) order by s.name limit :limit;

-- name: count
select count(*) from sources where tenant_id = :tenant_id;

-- name: add
insert into sources (tenant_id, name, listed_at, readers, writers)
values (:tenant_id, :name, :listed_at, :readers::text[], :writers::text[]) on conflict do nothing;

-- name: lock
-- One manifest at a time; uploads wait until it is written.
select run, readers, writers from sources where tenant_id = :tenant_id and name = :name for no key update;

-- name: set_access
update sources set readers = :readers::text[], writers = :writers::text[], updated_at = clock_timestamp()
 where tenant_id = :tenant_id and name = :name;

-- name: lock_shared
-- Uploads do not wait for each other.
select run from sources where tenant_id = :tenant_id and name = :name for share;

-- name: cancel_jobs
-- The worker locks the job first and then the asset; the other order could deadlock.
delete from jobs where tenant_id = :tenant_id and kind = 'ingest_asset' and subject = any (:subjects::text[]);

-- name: delete_assets
delete from assets where tenant_id = :tenant_id and id = any (:ids::uuid[]);

-- name: rename_assets
update assets a set external_id = u.new_id, name = u.name, version = a.version + 1, updated_at = clock_timestamp()
  from unnest(:id::uuid[], :new_id::text[], :name::text[]) u (id, new_id, name)
 where a.tenant_id = :tenant_id and a.id = u.id and (a.external_id, a.name) is distinct from (u.new_id, u.name);

-- name: accept
update sources
   set run = run + 1, items = :items, listed_at = :listed_at, origin = coalesce(:origin::text, origin),
       updated_at = clock_timestamp()
 where tenant_id = :tenant_id and name = :name
returning run;

-- name: agree
-- After `lock`, as a statement of its own: it must see what other transactions settled. An asset that was deleted took its
-- item with it, so the items are counted.
update sources s set agreed_run = run, agreed_at = listed_at
 where s.tenant_id = :tenant_id and s.name = :name and s.agreed_run < s.run
   and not exists (select from source_items i where i.tenant_id = :tenant_id and i.source = :name and not i.settled)
   and s.items = (select count(*) from source_items i where i.tenant_id = :tenant_id and i.source = :name);

-- name: some_assets
select id from assets where tenant_id = :tenant_id and source = :source order by id limit :limit;

-- name: taken_ids
-- External ids that assets without a source already have.
select a.external_id from assets a
  join assets o on o.tenant_id = :tenant_id and o.source is null and o.external_id = a.external_id
 where a.tenant_id = :tenant_id and a.source = :source order by 1 limit :limit;

-- name: release_assets
update assets set source = null, version = version + 1, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and source = :source;

-- name: delete
delete from sources where tenant_id = :tenant_id and name = :name;

-- name: held
-- The latest manifest of each source that was refused for its deletions, unless a later one was accepted.
select distinct on (s.name) s.name, a.at, a.actor, (a.detail ->> 'deletions')::integer as deletions,
       (a.detail ->> 'assets')::integer as assets
  from audit a join sources s on s.tenant_id = :tenant_id and s.name = a.detail ->> 'source'
 where a.tenant_id = :tenant_id and a.at > clock_timestamp() - :age::interval and a.action = 'source.write'
   and a.outcome = 'refused' and a.detail ? 'deletions'
   and not exists (select from audit l where l.tenant_id = :tenant_id and l.at > a.at and l.action = 'source.write'
                      and l.outcome = 'done' and l.detail ->> 'source' = s.name)
 order by s.name, a.at desc;

-- name: list_items
select i.external_id, i.name, i.digest, i.asset_id,
       case when i.problem is not null then 'refused'
            when i.stored_digest is distinct from i.digest then 'missing'
            when a.status in ('pending', 'processing') then 'pending' else a.status end as state,
       coalesce(i.problem, case when i.stored_digest = i.digest then a.error end) as reason
  from source_items i left join assets a on a.tenant_id = :tenant_id and a.id = i.asset_id
 where i.tenant_id = :tenant_id and i.source = :source
   and (:after::text is null or i.external_id > :after)
   and case :state::text
         when 'missing' then not i.settled and i.stored_digest is distinct from i.digest
         when 'refused' then i.problem is not null
         when 'pending' then i.stored_digest = i.digest and a.status in ('pending', 'processing')
         when 'indexed' then i.stored_digest = i.digest and a.status = 'indexed'
         when 'failed' then i.stored_digest = i.digest and a.status = 'failed'
         else true end
 order by i.external_id limit :limit;

-- name: set_item_readers
update source_items i set readers = r.readers
  from jsonb_to_recordset(:rows::jsonb) r (external_id text, readers text[])
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = r.external_id
   and i.readers is distinct from r.readers;

-- name: pass_on_access
update assets a
   set readers = coalesce(i.readers, s.readers), writers = s.writers, version = a.version + 1, updated_at = clock_timestamp()
  from sources s join source_items i on i.tenant_id = :tenant_id and i.source = s.name
 where s.tenant_id = :tenant_id and s.name = :source and a.tenant_id = :tenant_id and a.id = i.asset_id
   and (a.readers, a.writers) is distinct from (coalesce(i.readers, s.readers), s.writers);

-- name: stored
select i.external_id, i.digest, i.name, i.asset_id, i.stored_digest, i.problem,
       coalesce(a.status = 'failed', false) as failed
  from source_items i left join assets a on a.tenant_id = :tenant_id and a.id = i.asset_id
 where i.tenant_id = :tenant_id and i.source = :source order by i.external_id;

-- name: adopt
-- Assets of the source without an item, as an import that was interrupted leaves them.
insert into source_items (tenant_id, source, external_id, digest, name, asset_id)
select :tenant_id, :source, a.external_id, 'unknown', a.name, a.id from assets a
 where a.tenant_id = :tenant_id and a.source = :source
   and not exists (select from source_items i where i.tenant_id = :tenant_id and i.asset_id = a.id)
on conflict do nothing;

-- name: delete_item
delete from source_items
 where tenant_id = :tenant_id and source = :source and external_id = any (:external_ids::text[]);

-- name: change
-- `again`: the bytes must be uploaded again, although the digest is the same.
update source_items i
   set external_id = u.new_id, digest = u.digest, name = u.name, problem = null, settled = false,
       stored_digest = case when u.again then null else i.stored_digest end
  from unnest(:old_id::text[], :new_id::text[], :digest::text[], :name::text[], :again::boolean[])
         u (old_id, new_id, digest, name, again)
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = u.old_id;

-- name: add_item
insert into source_items (tenant_id, source, external_id, digest, name, problem, settled)
select :tenant_id, :source, u.external_id, u.digest, u.name, u.problem, u.problem is not null
  from unnest(:external_id::text[], :digest::text[], :name::text[], :problem::text[])
         u (external_id, digest, name, problem);

-- name: settle_items
update source_items i set settled = true
  from assets a
 where i.tenant_id = :tenant_id and i.source = :source and not i.settled and i.stored_digest = i.digest
   and a.tenant_id = :tenant_id and a.id = i.asset_id and a.status in ('indexed', 'failed');

-- name: settle_item
-- In the transaction that ends the ingestion of the asset.
update source_items set settled = true
 where tenant_id = :tenant_id and asset_id = :asset_id and stored_digest = digest and not settled;

-- name: fetch_item
select i.digest, i.name, i.asset_id, i.stored_digest, coalesce(i.readers, s.readers) as readers, s.writers
  from source_items i join sources s on s.tenant_id = :tenant_id and s.name = i.source
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = :external_id;

-- name: store
update source_items i
   set asset_id = :asset_id, stored_digest = digest, problem = null,
       settled = exists (select from assets a where a.tenant_id = :tenant_id and a.id = :asset_id
                            and a.status in ('indexed', 'failed'))
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = :external_id;

-- name: refuse
insert into source_items (tenant_id, source, external_id, digest, name, problem, settled, readers)
values (:tenant_id, :source, :external_id, :digest, :name, :problem, true,
        (select nullif(:readers::text[], s.readers) from sources s where s.tenant_id = :tenant_id and s.name = :source))
on conflict (tenant_id, source, external_id) do update set problem = excluded.problem, settled = true;
