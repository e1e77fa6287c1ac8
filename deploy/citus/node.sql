-- Makes a Postgres that deploy/roles.sql has prepared a node of a Citus cluster. Run it with node.sh on the coordinator
-- and on each worker, in the database of the service, as the superuser; running it again is harmless. The server needs
-- these settings from its start:
--
--   shared_preload_libraries = 'citus'
--   wal_level = logical
--   citus.enable_unsafe_triggers = on
--
-- The last one allows triggers on distributed tables. Those of the service only touch rows of the tenant whose row was
-- written, which are on the same node.

create extension if not exists citus;

-- Citus copies the rows that the caller sees. Row-level security hides all of them from the owner of the tables, whose
-- move would lose them, so only a superuser moves shards: `knowledge tenant move` and the rebalancer.
do $$
declare function regprocedure;
begin
  for function in
    select p.oid from pg_proc p
      join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
      join pg_extension x on x.oid = d.refobjid and x.extname = 'citus'
     where p.proname ~ '^(citus|master)_(move|copy)_shard_placement$|^(citus|master)_drain_node$|^citus_split_shard'
        or p.proname in ('citus_rebalance_start', 'rebalance_table_shards', 'replicate_table_shards',
                         'isolate_tenant_to_new_shard', 'alter_distributed_table', 'undistribute_table')
  loop
    execute format('revoke execute on routine %s from public', function);
  end loop;
end $$;

-- How this node logs in to the others, as the same role. Only superusers can read the table.
insert into pg_dist_authinfo (nodeid, rolename, authinfo)
select 0, role, 'password=''' || replace(replace(password, '\', '\\'), '''', '\''') || ''''
  from (values (current_user::text, :'superuser_password'), ('kb_migrator', :'migrator_password'),
               ('kb_service', :'service_password')) as given (role, password)
on conflict (nodeid, rolename) do update set authinfo = excluded.authinfo;

-- Since 18.6, Postgres only loads the libraries that this setting names to decode changes. Citus' own divides a shard
-- while its tenants are written (`knowledge tenant move --alone`); others move shards with pgoutput.
select 'alter system set output_plugin_libraries = pgoutput, test_decoding, citus'
 where exists (select from pg_settings where name = 'output_plugin_libraries') \gexec
select pg_reload_conf() \g /dev/null
