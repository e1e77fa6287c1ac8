-- Tenants, their settings and limits, the registered models, and revoked tokens of tenants and of platform administrators.

-- name: list_tenants
select id, slug, name, created_at from tenancy.list_tenants();

-- name: active_tenants
select tenancy.active_tenants(:within, :ages::interval[]);

-- name: models_of_tenants
select id, slug, model_id from tenancy.list_tenants();

-- name: has_entries
select exists (select from entries where tenant_id = :tenant_id)
    or exists (select from model_changes where tenant_id = :tenant_id);

-- name: find_tenant
select id, slug, name, created_at from tenancy.list_tenants() where slug = :slug;

-- name: page_of_tenants
-- Tenants after the given one, oldest first.
select id, slug, name, created_at from tenancy.list_tenants()
 where :after_key::timestamptz is null or (created_at, id) > (:after_key, :after_id::uuid)
 order by created_at, id limit :count;

-- name: count_tenants
select count(*) from tenancy.list_tenants();

-- name: tenants_from
-- Tenants from the given place in the list, oldest first.
select id, slug, name, created_at from tenancy.list_tenants()
 order by created_at, id offset :place limit :count;

-- name: create_tenant
select tenancy.create_tenant(:id, :slug, :name, :model_id, :actor);

-- name: delete_tenant
select tenancy.delete_tenant(:id, :actor);

-- name: note_action
select tenancy.note_action(:actor, :action, :subject, :outcome);

-- name: change_limits
select tenancy.change_limits(:id, :changes::jsonb, :actor);

-- name: hold_tenant
-- Serialises changes of the tenant's row without blocking writes of its entries.
select 1 from tenants where id = :tenant_id for no key update;

-- name: own_tenant
-- All data of the tenant that a request needs, in one row.
select t.id, t.slug, t.name, t.settings, t.limits, coalesce(u.tokens, 0) as tokens_today, m.id as model_id, m.provider, m.name as model, m.dimensions,
       m.max_tokens, m.similarity_threshold, m.centre, coalesce(v.passages, 0) as passages,
       coalesce(v.searches, 0) as searches, coalesce(v.mean_similarity, 0) as mean_similarity,
       coalesce(v.index_state, 'none') as index_state,
       exists (select from permissions p where p.tenant_id = t.id) as restricted,
       (select coalesce(sum(c.entries), 0)::bigint from corpus_statistics c
         where c.tenant_id = t.id and c.principal = 'everyone') as open_entries,
       array(select r.token_id from revoked_tokens r
              where r.tenant_id = t.id and r.expires_at > clock_timestamp()) as revoked_tokens
  from tenants t
  join embedding_models m on m.id = t.model_id
  left join vector_statistics v on v.tenant_id = t.id and v.model_id = t.model_id
  left join usage_by_day u on u.tenant_id = t.id and u.day = (clock_timestamp() at time zone 'UTC')::date
 where t.id = :tenant_id;

-- name: update_settings
update tenants set settings = :settings::jsonb where id = :tenant_id;

-- name: add_similarities
-- Adds searches to the mean, by their best hits; only those whose hit everyone in the tenant may read. A hit in a language
-- that the model does not know counts as :centre: its cosine says nothing. After :memory searches, each further one weighs
-- 1/:memory.
update vector_statistics v
   set searches = v.searches + new.searches,
       mean_similarity = v.mean_similarity
         + (new.total - new.searches * v.mean_similarity) / (least(v.searches, :memory::bigint) + new.searches)
  from (select count(*) as searches,
               sum(case when e.language = any (:languages::text[]) then u.similarity
                        else coalesce(:centre::double precision, u.similarity) end) as total
          from unnest(:ids::uuid[], :similarities::double precision[]) u (id, similarity)
         cross join lateral (
           select e.readers, e.language from entries e where e.tenant_id = :tenant_id and e.id = u.id offset 0) e
         where e.readers is null) new
 where v.tenant_id = :tenant_id and v.model_id = :model_id and new.searches > 0;

-- name: models
select id, provider, name, dimensions, max_tokens, similarity_threshold, centre from embedding_models order by id;

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

-- name: search
-- Those whose name has this text, the latest first.
select c.subject, c.principals, c.roles, c.last_at from callers c
 where c.tenant_id = :tenant_id and strpos(lower(c.subject), lower(:text)) > 0
 order by c.last_at desc, c.subject limit :limit;

-- name: find
select c.subject, c.principals, c.roles, c.last_at from callers c where c.tenant_id = :tenant_id and c.subject = :subject;

-- name: forget
delete from callers where tenant_id = :tenant_id and last_at < clock_timestamp() - :age::interval;

-- name: stored
-- The usage that counts against the limits of entries and bytes: of all entries, also those that the caller may not read.
select coalesce(c.entries, 0)::bigint as entries, (coalesce(c.characters, 0) + coalesce(a.bytes, 0))::bigint as bytes
  from stored_entries() c
  left join asset_statistics a on a.tenant_id = :tenant_id;

-- name: lock
-- Until the transaction ends, other transactions near a limit of the tenant wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid::text, 14));

-- name: tokens_today
select tokens from usage_by_day
 where tenant_id = :tenant_id and day = (clock_timestamp() at time zone 'UTC')::date;

-- name: add_usage
insert into usage_by_day as u (tenant_id, day, tokens, searches)
values (:tenant_id, (clock_timestamp() at time zone 'UTC')::date, :tokens, :searches)
on conflict (tenant_id, day)
do update set tokens = u.tokens + excluded.tokens, searches = u.searches + excluded.searches;

-- name: count_writes
-- Items written by operations of the audit trail, by day (UTC).
select (at at time zone 'UTC')::date as day, sum(greatest(cardinality(subject_ids), 1))::bigint as writes from audit
 where tenant_id = :tenant_id and at >= :since::timestamptz and outcome = 'done' and action = any (:actions::text[])
 group by 1;

-- name: count_files
select count(*) from assets where tenant_id = :tenant_id;

-- name: tally
-- The trail may have lost its oldest rows since the last count.
insert into usage_by_day as u (tenant_id, day, writes, entries, files, bytes)
values (:tenant_id, :day::date, :writes, :entries::bigint, :files::bigint, :bytes::bigint)
on conflict (tenant_id, day)
do update set writes = greatest(u.writes, excluded.writes), entries = coalesce(excluded.entries, u.entries),
              files = coalesce(excluded.files, u.files), bytes = coalesce(excluded.bytes, u.bytes);

-- name: usage
select day, searches, writes, tokens as embedded_tokens, entries, files, bytes from usage_by_day
 where tenant_id = :tenant_id and day <= :last::date order by day;

-- name: purge
-- The newest day stays: it has what a tenant without work stores.
delete from usage_by_day
 where tenant_id = :tenant_id and day < (clock_timestamp() at time zone 'UTC')::date - :days::integer
   and day < (select max(n.day) from usage_by_day n where n.tenant_id = :tenant_id and n.entries is not null);

-- name: callers
-- Of the last 24 hours; the changes leave out what admins read.
with searched as (
  select subject, count(*) as searches, count(*) filter (where result_count = 0) as without_results,
         percentile_disc(0.95) within group (order by query_time_ms) as p95_ms, max(at) as last_at
    from searches
   where tenant_id = :tenant_id and at > statement_timestamp() - interval '24 hours'
   group by subject
), acted as (
  select actor, count(*) filter (where outcome = 'done' and action not like '%.read') as changes,
         count(*) filter (where outcome = 'refused') as refused, max(at) as last_at
    from audit
   where tenant_id = :tenant_id and at > statement_timestamp() - interval '24 hours'
   group by actor
)
select coalesce(s.subject, a.actor) as subject, coalesce(s.searches, 0) as searches,
       coalesce(s.without_results, 0) as without_results, s.p95_ms, coalesce(a.changes, 0) as changes,
       coalesce(a.refused, 0) as refused, greatest(s.last_at, a.last_at) as last_at
  from searched s full join acted a on a.actor = s.subject
 order by coalesce(s.searches, 0) + coalesce(a.changes, 0) desc, 1 limit :limit;

-- name: lock_revocations
-- Until the transaction ends, other revocations of the tenant wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' revocations', 0));

-- name: purge_revocations
delete from revoked_tokens where tenant_id = :tenant_id and expires_at <= clock_timestamp();

-- name: count_other_revocations
select count(*) from revoked_tokens where tenant_id = :tenant_id and token_id <> :token_id;

-- name: put_revocation
-- A second revocation never shortens the first.
insert into revoked_tokens as r (tenant_id, token_id, expires_at) values (:tenant_id, :token_id, :expires_at)
on conflict (tenant_id, token_id) do update set expires_at = greatest(r.expires_at, excluded.expires_at)
returning r.token_id, r.revoked_at, r.expires_at;

-- name: list_revocations
-- The newest first. A token's id is any text, so a hash of it is its position in the list.
select token_id, revoked_at, expires_at from revoked_tokens
 where tenant_id = :tenant_id and expires_at > clock_timestamp()
   and (:after_id::uuid is null or (revoked_at, md5(token_id)::uuid) < (:after_key::timestamptz, :after_id::uuid))
 order by revoked_at desc, md5(token_id)::uuid desc limit :limit;

-- name: list_platform_revocations
select token_id, revoked_at, expires_at from tenancy.list_revoked_tokens()
 where :after_id::uuid is null or (revoked_at, md5(token_id)::uuid) < (:after_key::timestamptz, :after_id::uuid)
 order by revoked_at desc, md5(token_id)::uuid desc limit :limit;

-- name: platform_revocation_ids
select token_id from tenancy.list_revoked_tokens();

-- name: put_platform_revocation
select :token_id::text as token_id, revoked_at, expires_at from tenancy.revoke_token(:token_id, :expires_at, :most, :actor);
