-- Roles that hold rights and cannot log in, and the extensions.
--
-- A transaction has the role of its caller's path: kb_reader reads, and writes what readers own; kb_creator also writes
-- knowledge; kb_admin also administers its tenant. kb_app is the service itself, and the role that the login is a member of.
-- Each has the rights of the one before it. Policies name kb_reader, so they bind all four.
--
-- Roles belong to the whole server, so another database may have created them. `grant … with set true` lets a
-- migrator that is not a superuser create objects as them.

do $$
declare role_name text;
begin
  foreach role_name in array array['kb_reader', 'kb_creator', 'kb_admin', 'kb_app', 'kb_keyword', 'kb_queue'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = role_name) then
      execute format('create role %I nologin nosuperuser nobypassrls', role_name);
    end if;
  end loop;
  foreach role_name in array array['kb_keyword', 'kb_queue'] loop
    if not pg_has_role(current_user, role_name, 'set') then
      execute format('grant %I to current_user with set true, inherit false', role_name);
    end if;
  end loop;
  if not pg_has_role('kb_creator', 'kb_reader', 'usage') then
    grant kb_reader to kb_creator;
  end if;
  if not pg_has_role('kb_admin', 'kb_creator', 'usage') then
    grant kb_creator to kb_admin;
  end if;
  if not pg_has_role('kb_app', 'kb_admin', 'usage') then
    grant kb_admin to kb_app;
  end if;
end $$;

create extension if not exists btree_gin;
create extension if not exists pg_trgm;

grant usage on schema public to kb_reader, kb_keyword, kb_queue;
