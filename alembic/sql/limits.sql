-- The limits of a tenant, and its usage.

create or replace function tenancy.change_limits(p_id uuid, p_changes jsonb, p_actor text) returns jsonb
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
comment on table asset_statistics is 'Bytes of the files of a tenant, kept exact by the trigger on assets';

create table usage_by_day (
  tenant_id uuid not null references tenants on delete cascade,
  day date not null,
  tokens bigint not null default 0,
  searches bigint not null default 0,
  writes bigint not null default 0,
  entries bigint,
  files bigint,
  bytes bigint,
  primary key (tenant_id, day)
);
comment on table usage_by_day is
  'What a tenant used on a day (UTC); entries, files and bytes are those stored when they were last counted on that day';

-- A removed file only lowers the number: when a tenant is deleted, its row here may be deleted before its files.
create or replace function count_asset_bytes() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
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

create trigger count_bytes after insert or delete or update of byte_size on assets
  for each row execute function count_asset_bytes();
