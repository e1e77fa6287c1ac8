"""Readers, creators and admins have roles of their own in the database: `kb_reader`, `kb_creator`, `kb_admin`.

Policies name kb_reader, of which the others are members, in the place of kb_app. `app.db.schema.migration` creates the
roles. A downgrade leaves all of this: kb_app has the rights of the three.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file

revision = "0029"
down_revision = "0028"

POLICIES = """
do $$
declare place record;
begin
  for place in
    select p.polname as name, p.polrelid::regclass as relation,
           (select string_agg(case r.rolname when 'kb_app' then 'kb_reader' else quote_ident(r.rolname) end, ', ')
              from pg_roles r where r.oid = any (p.polroles)) as roles
      from pg_policy p where to_regrole('kb_app')::oid = any (p.polroles)
  loop
    execute format('alter policy %I on %s to %s', place.name, place.relation, place.roles);
  end loop;
end $$
"""
TABLES = """
do $$
declare place record;
begin
  for place in
    select c.oid::regclass as name, c.relname from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and c.relowner = current_user::regrole and has_table_privilege('kb_app', c.oid, 'select')
  loop
    execute format('revoke select on %s from kb_app', place.name);
    execute format('grant select on %s to kb_reader', place.name);
  end loop;
end $$
"""
FUNCTIONS = """
do $$
declare place record;
begin
  for place in
    select p.oid::regprocedure as signature, p.proowner::regrole as owner,
           case p.proname when 'begin_as_service' then 'kb_creator' else 'kb_reader' end as role
      from pg_proc p
      join pg_namespace n on n.oid = p.pronamespace and n.nspname in ('public', 'keyword')
     where exists (select from aclexplode(p.proacl) a where a.grantee = to_regrole('kb_app'))
  loop
    execute format('set local role %s', place.owner);
    execute format('revoke execute on function %s from kb_app', place.signature);
    execute format('grant execute on function %s to %s', place.signature, place.role);
    reset role;
  end loop;
end $$
"""
OTHERS = """
revoke update (name, settings, model_id) on tenants from kb_app;
grant update (name, settings, model_id) on tenants to kb_admin;
revoke usage on schema public, keyword from kb_app;
grant usage on schema public, keyword to kb_reader
"""


def upgrade() -> None:
    execute_script(POLICIES)
    execute_script(TABLES)
    execute_script(OTHERS)
    execute_script(FUNCTIONS)
    run_file("rights")


def downgrade() -> None:
    """Leave the roles and their rights, with which the version before works."""
