-- name: write_audit
insert into audit (tenant_id, id, actor, action, subject_ids, detail, outcome)
values (:tenant_id, :id, :actor, :action, :subject_ids::uuid[], :detail::jsonb, :outcome);

-- name: list_audit
-- The size of an id is that of its JSON.
select at as key, id, octet_length(detail::text) + 39 * cardinality(subject_ids) as bytes from audit
 where tenant_id = :tenant_id and (:after_id::uuid is null or (at, id) < (:after_key::timestamptz, :after_id::uuid))
   and (:actor::text is null or actor = :actor) and (:action::text is null or action = :action)
   and (:outcome::text is null or outcome = :outcome)
   and (:after::timestamptz is null or at >= :after) and (:before::timestamptz is null or at < :before)
 order by at desc, id desc limit :limit;

-- name: fetch_audit
select id, at, actor, action, subject_ids, outcome, detail from audit
 where tenant_id = :tenant_id and id = any (:ids::uuid[]) order by at desc, id desc;
