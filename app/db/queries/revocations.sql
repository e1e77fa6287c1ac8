-- Revoked tokens of a tenant, which `own_tenant` reads for each request, and of platform administrators.

-- name: lock
-- Until the transaction ends, other revocations of the tenant wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' revocations', 0));

-- name: purge
delete from revoked_tokens where tenant_id = :tenant_id and expires_at <= clock_timestamp();

-- name: count_others
select count(*) from revoked_tokens where tenant_id = :tenant_id and token_id <> :token_id;

-- name: put
-- A second revocation never shortens the first.
insert into revoked_tokens as r (tenant_id, token_id, expires_at) values (:tenant_id, :token_id, :expires_at)
on conflict (tenant_id, token_id) do update set expires_at = greatest(r.expires_at, excluded.expires_at)
returning r.token_id, r.revoked_at, r.expires_at;

-- name: list
-- The newest first. A token's id is any text, so a hash of it is its position in the list.
select token_id, revoked_at, expires_at from revoked_tokens
 where tenant_id = :tenant_id and expires_at > clock_timestamp()
   and (:before_id::uuid is null or (revoked_at, md5(token_id)::uuid) < (:before_at::timestamptz, :before_id::uuid))
 order by revoked_at desc, md5(token_id)::uuid desc limit :limit;

-- name: list_of_platform
select token_id, revoked_at, expires_at from tenancy.list_revoked_tokens()
 where :before_id::uuid is null or (revoked_at, md5(token_id)::uuid) < (:before_at::timestamptz, :before_id::uuid)
 order by revoked_at desc, md5(token_id)::uuid desc limit :limit;

-- name: ids_of_platform
select token_id from tenancy.list_revoked_tokens();

-- name: put_on_platform
select :token_id::text as token_id, revoked_at, expires_at from tenancy.revoke_token(:token_id, :expires_at, :most, :actor);
