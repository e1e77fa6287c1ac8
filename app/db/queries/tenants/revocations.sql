-- Revoked tokens of a tenant; `own_tenant` reads them for each request.

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
