-- Every table with a tenant_id, and all its partitions: forced row-level security, one policy, and the service's rights.
--
-- The policy names two roles: kb_reader, whose rights all roles of the application have, and the owner, whose triggers and
-- backfills see only the rows of the current tenant. Tables that already have the policy are skipped: a migration that
-- creates a table runs this file, and then `rights`, for what callers may write.

do $$
declare
  place regclass;
  part regclass;
  own constant text := /* one server */ 'tenant_id = (select current_tenant())' /* Citus: 'tenant_id = current_tenant()' */;
begin
  for place in
    select c.oid from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and c.relowner = current_user::regrole
       and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'tenant_isolation')
  loop
    for part in select place union select relid from pg_partition_tree(place) loop
      execute format('alter table %s enable row level security, force row level security', part);
    end loop;
    execute format('create policy tenant_isolation on %1$s to kb_reader, current_user using (%2$s) with check (%2$s)', place, own);
    execute format('grant select on %s to kb_reader', place);
    execute format('grant insert, update, delete on %s to kb_app', place);
  end loop;
end $$;

-- The service can add to a tenant's audit trail but not change it.
revoke update, delete on audit from kb_app;
