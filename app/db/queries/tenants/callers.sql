-- The callers of a tenant, as their last tokens described them.

-- name: note
-- A new caller beyond `most` is not noted.
insert into callers as c (tenant_id, subject, principals, roles)
select :tenant_id, :subject, :principals, :roles
 where exists (select from callers k where k.tenant_id = :tenant_id and k.subject = :subject)
    or (select count(*) from callers k where k.tenant_id = :tenant_id) < :most
on conflict (tenant_id, subject)
do update set principals = excluded.principals, roles = excluded.roles, last_at = excluded.last_at;

-- name: list
-- Those with one of the principals, the latest first; null: all.
select c.subject, c.principals, c.roles, c.last_at from callers c
 where c.tenant_id = :tenant_id and (:any_of::text[] is null or c.principals && :any_of::text[])
 order by c.last_at desc, c.subject limit :limit;

-- name: find
select c.subject, c.principals, c.roles, c.last_at from callers c where c.tenant_id = :tenant_id and c.subject = :subject;

-- name: forget
delete from callers where tenant_id = :tenant_id and last_at < clock_timestamp() - :age::interval;
