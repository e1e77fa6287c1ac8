-- Removes the oldest rows of the current tenant's audit trail, or of the platform's without a tenant: those over p_most,
-- at most p_batch of them. The service's role cannot remove rows itself, and this function never removes any of the newest
-- million. What was removed is recorded in the platform's trail.
create or replace function tenancy.prune_audit(p_most bigint, p_batch integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare
  me constant uuid := current_tenant();
  most constant bigint := greatest(p_most, 1000000);
  batch constant integer := least(greatest(p_batch, 0), 100000);
  removed bigint := 0;
  last_at timestamptz;
begin
  if p_most is null or p_batch is null then
    return 0;
  end if;
  if me is null then
    with dropped as (
      delete from platform_audit a
       where a.id = any (array(select b.id from platform_audit b order by b.id
                                limit least(batch, greatest(0, (select count(*) from platform_audit) - most))))
      returning a.at)
    select count(*), max(d.at) into removed, last_at from dropped d;
  else
    perform set_config('citus.propagate_set_commands', 'local', true);
    execute format('set local app.current_tenant = %L', me);
    execute format('set local app.current_principals = %L', coalesce(current_setting('app.current_principals', true), ''));
    with dropped as (
      delete from audit a
       where a.tenant_id = me
         and a.id = any (array(select b.id from audit b where b.tenant_id = me order by b.at, b.id
                                limit least(batch, greatest(0, (select count(*) from audit c where c.tenant_id = me) - most))))
      returning a.at)
    select count(*), max(d.at) into removed, last_at from dropped d;
  end if;
  if removed > 0 then
    insert into platform_audit (actor, action, subject_tenant, detail)
    values ('upkeep', 'audit.prune', me, jsonb_build_object('rows', removed, 'until', last_at));
  end if;
  return removed;
end $$;
revoke all on function tenancy.prune_audit(bigint, integer) from public;
grant execute on function tenancy.prune_audit(bigint, integer) to kb_app;
