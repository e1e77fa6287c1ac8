-- Tenants, their settings and limits, and the registered models.

-- name: list_tenants
select id, slug, name, created_at from tenancy.list_tenants();

-- name: models_of_tenants
select slug, model_id from tenancy.list_tenants();

-- name: find_tenant
select id, slug, name, created_at from tenancy.list_tenants() where slug = :slug;

-- name: page_of_tenants
-- Tenants after the given one, oldest first.
select id, slug, name, created_at from tenancy.list_tenants()
 where :time::timestamptz is null or (created_at, id) > (:time, :id::uuid)
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
       m.max_tokens, m.similarity_threshold, coalesce(v.passages, 0) as passages,
       coalesce(v.index_state, 'none') as index_state,
       exists (select from permissions p where p.tenant_id = t.id) as restricted,
       (select coalesce(sum(c.entries), 0)::bigint from corpus_statistics c
         where c.tenant_id = t.id and c.principal = 'everyone') as open_entries,
       array(select r.token_id from revoked_tokens r
              where r.tenant_id = t.id and r.expires_at > clock_timestamp()) as revoked_tokens
  from tenants t
  join embedding_models m on m.id = t.model_id
  left join vector_statistics v on v.tenant_id = t.id and v.model_id = t.model_id
  left join embedding_usage u on u.tenant_id = t.id and u.day = (clock_timestamp() at time zone 'UTC')::date
 where t.id = :tenant_id;

-- name: update_settings
update tenants set settings = :settings::jsonb where id = :tenant_id;

-- name: models
select id, provider, name, dimensions, max_tokens, similarity_threshold from embedding_models order by id;
