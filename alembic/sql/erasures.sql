-- Erasures of an asset, an entry, or everything of a subject: the receipt, and the ids to look for until the second look.

create table erasures (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  kind text not null check (kind in ('asset', 'entry', 'subject')),
  target uuid,
  subject text check (length(subject) between 1 and 255),
  requested_by text not null,
  state text not null default 'running' check (state in ('running', 'erased', 'done')),
  step text not null default 'plan' check (step in
    ('plan', 'remove', 'trail', 'receipts', 'look', 'look_at_receipts')),
  place uuid not null default '00000000-0000-0000-0000-000000000000',
  removed jsonb not null default '{}',
  found jsonb not null default '{}',
  derived jsonb not null default '[]',
  derived_total bigint not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  erased_at timestamptz,
  checked_at timestamptz,
  primary key (tenant_id, id),
  check ((kind = 'subject') = (target is null))
);
comment on column erasures.subject is 'The sub to erase; null once the erasure is done';
comment on column erasures.state is 'erased: nothing was found at the first look; done: nor at the second, a minute later';
comment on column erasures.place is 'Searches up to this id were visited in this step';
comment on column erasures.removed is 'Rows removed or changed, by place';
comment on column erasures.found is 'Rows found at the last look, by place';
comment on column erasures.derived is 'Items that depend on erased ones, named for decision; their content is not erased';
create index erasures_by_time on erasures (tenant_id, created_at desc, id desc);

create table erasure_items (
  tenant_id uuid not null references tenants on delete cascade,
  erasure_id uuid not null,
  item uuid not null,
  kind text not null check (kind in ('asset', 'entry')),
  is_erased boolean not null default false,
  primary key (tenant_id, erasure_id, item),
  foreign key (tenant_id, erasure_id) references erasures (tenant_id, id) on delete cascade
);
comment on table erasure_items is 'The ids of an erasure, until it is done';
create index erasure_items_left on erasure_items (tenant_id, erasure_id, kind, item) where not is_erased;

-- Replaces the actor in the tenant's audit trail, in at most p_batch rows, while an erasure of this subject runs: by
-- `erased:` and the id of the erasure. The service cannot change the trail in any other way. What was changed is recorded
-- in the platform's trail.
create or replace function tenancy.pseudonymise_actor(p_erasure uuid, p_batch integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare
  me constant uuid := current_tenant();
  batch constant integer := least(greatest(coalesce(p_batch, 0), 0), 100000);
  name text;
  changed bigint;
begin
  if me is null then
    raise exception 'no tenant is set' using errcode = 'insufficient_privilege';
  end if;
  perform set_config('citus.propagate_set_commands', 'local', true);
  execute format('set local app.current_tenant = %L', me);
  execute format('set local app.current_principals = %L', coalesce(current_setting('app.current_principals', true), ''));
  select e.subject into name
    from erasures e where e.tenant_id = me and e.id = p_erasure and e.kind = 'subject' and e.state <> 'done';
  if name is null then
    return 0;
  end if;
  update audit a set actor = 'erased:' || p_erasure
   where a.tenant_id = me
     and a.id = any (array(select b.id from audit b where b.tenant_id = me and b.actor = name limit batch));
  get diagnostics changed = row_count;
  if changed > 0 then
    insert into platform_audit (actor, action, subject_tenant, detail)
    values ('erasure', 'audit.pseudonymise', me, jsonb_build_object('erasure', p_erasure, 'rows', changed));
  end if;
  return changed;
end $$;
revoke all on function tenancy.pseudonymise_actor(uuid, integer) from public;
grant execute on function tenancy.pseudonymise_actor(uuid, integer) to kb_app;
