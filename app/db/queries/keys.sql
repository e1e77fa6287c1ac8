-- API keys of a tenant.

-- name: lock
-- Until the transaction ends, other creations of keys in the tenant wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' keys', 0));

-- name: count_keys
select count(*) from api_keys where tenant_id = :tenant_id;

-- name: insert_key
insert into api_keys (tenant_id, id, name, digest, role, groups, expires_at)
values (:tenant_id, :id, :name, :digest, :role, :groups, :expires_at)
on conflict (tenant_id, name) do nothing
returning id, name, role, groups, created_at, expires_at, last_used_at;

-- name: list_keys
select id, name, role, groups, created_at, expires_at, last_used_at from api_keys
 where tenant_id = :tenant_id
   and (:after_id::uuid is null or (created_at, id) < (:after_key::timestamptz, :after_id::uuid))
 order by created_at desc, id desc limit :limit;

-- name: digests
select digest, id, name, role, groups, expires_at from api_keys where tenant_id = :tenant_id;

-- name: delete_key
delete from api_keys where tenant_id = :tenant_id and id = :id returning name;

-- name: note_use
update api_keys set last_used_at = clock_timestamp() where tenant_id = :tenant_id and id = any (:ids);
