-- The slugs of all tenants, each once: on Citus a unique index of tenants would have to contain the id.
-- tenancy.create_tenant() and tenancy.delete_tenant() write the table; the service has no rights on it.
create table tenant_slugs (
  slug text primary key,
  tenant uuid not null unique
);
comment on column tenant_slugs.tenant is 'No foreign key, because the table is on the coordinator of a cluster';
