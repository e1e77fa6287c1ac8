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
