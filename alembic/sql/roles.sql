-- Roles that hold rights and cannot log in, and the extensions.
--
-- Roles belong to the whole server, so another database may have created them. `grant … with set true` lets a
-- migrator that is not a superuser create objects as them.

do $$
declare role_name text;
begin
  foreach role_name in array array['kb_app', 'kb_keyword', 'kb_queue'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = role_name) then
      execute format('create role %I nologin nosuperuser nobypassrls', role_name);
    end if;
    if not pg_has_role(current_user, role_name, 'set') then
      execute format('grant %I to current_user with set true, inherit false', role_name);
    end if;
  end loop;
end $$;

create extension if not exists btree_gin;
create extension if not exists pg_trgm;

grant usage on schema public to kb_app, kb_keyword, kb_queue;
