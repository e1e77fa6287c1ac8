"""What the platform allows a tenant, and what a tenant has used of it."""

from __future__ import annotations

from app.db.schema.migration import execute_script, isolate_tables

revision = "0014"
down_revision = "0013"

# The application's role may read `limits` and has no right to change that column: only the function does.
UP = f"""
alter table tenants add column limits jsonb not null default '{{}}' check (jsonb_typeof(limits) = 'object');
comment on column tenants.limits is 'What the platform allows this tenant in place of its defaults; 0 is no limit';

create function tenancy.change_limits(p_id uuid, p_changes jsonb, p_actor text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare changed jsonb;
begin
  update public.tenants t set limits = jsonb_strip_nulls(t.limits || p_changes) where t.id = p_id
  returning t.limits into changed;
  if changed is not null then
    insert into public.platform_audit (actor, action, subject_tenant, detail)
    values (p_actor, 'tenant.limits', p_id, p_changes);
  end if;
  return changed;
end $$;
revoke all on function tenancy.change_limits(uuid, jsonb, text) from public;
grant execute on function tenancy.change_limits(uuid, jsonb, text) to kb_app;

create table asset_statistics (
  tenant_id uuid primary key references tenants on delete cascade,
  bytes bigint not null
);
comment on table asset_statistics is 'Bytes of the files that a tenant keeps, exact by the trigger on assets';

create table embedding_usage (
  tenant_id uuid not null references tenants on delete cascade,
  day date not null,
  tokens bigint not null,
  primary key (tenant_id, day)
);
comment on table embedding_usage is 'Tokens that were embedded for a tenant on a day (UTC)';
{isolate_tables("asset_statistics", "embedding_usage")}

-- A removed file only ever lowers the number: when a tenant is deleted, its row here may be gone before its files.
create function count_asset_bytes() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    insert into asset_statistics as s (tenant_id, bytes) values (new.tenant_id, new.byte_size)
    on conflict (tenant_id) do update set bytes = s.bytes + excluded.bytes;
  elsif tg_op = 'UPDATE' then
    update asset_statistics s set bytes = s.bytes + new.byte_size - old.byte_size where s.tenant_id = new.tenant_id;
  else
    update asset_statistics s set bytes = s.bytes - old.byte_size where s.tenant_id = old.tenant_id;
  end if;
  return null;
end $$;
revoke all on function count_asset_bytes() from public;

-- Nothing may come or go between the count and the trigger that keeps it.
lock table assets in share row exclusive mode;
do $$
declare tenant uuid;
begin
  for tenant in select id from tenants order by id loop
    perform set_config('app.current_tenant', tenant::text, true);
    insert into asset_statistics (tenant_id, bytes)
    select tenant, sum(byte_size) from assets where tenant_id = tenant having count(*) > 0;
  end loop;
  perform set_config('app.current_tenant', '', true);
end $$;

create trigger count_bytes after insert or delete or update of byte_size on assets
  for each row execute function count_asset_bytes();
"""

DOWN = """
drop trigger count_bytes on assets;
drop function count_asset_bytes();
drop table embedding_usage, asset_statistics;
drop function tenancy.change_limits(uuid, jsonb, text);
alter table tenants drop column limits;
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
