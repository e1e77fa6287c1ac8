"""The audit trail says how an act ended, and notes what platform administrators read and are refused."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0011"
down_revision = "0010"

OUTCOMES = "check (outcome in ('done', 'refused'))"

# What an administrator of the platform reads concerns no tenant in particular. The function only adds: the
# application's role can neither read the trail nor change it.
UP = f"""
alter table audit add column outcome text not null default 'done' {OUTCOMES};
alter table platform_audit add column outcome text not null default 'done' {OUTCOMES};
alter table platform_audit alter column subject_tenant drop not null;

create function tenancy.note_action(p_actor text, p_action text, p_subject_tenant uuid, p_outcome text) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into public.platform_audit (actor, action, subject_tenant, outcome)
  values (p_actor, p_action, p_subject_tenant, p_outcome);
$$;
revoke all on function tenancy.note_action(text, text, uuid, text) from public;
grant execute on function tenancy.note_action(text, text, uuid, text) to kb_app;
"""

# What came after this revision's start and says what the older table cannot hold is left out.
DOWN = """
drop function tenancy.note_action(text, text, uuid, text);
delete from platform_audit where subject_tenant is null or outcome <> 'done';
alter table platform_audit alter column subject_tenant set not null;
alter table platform_audit drop column outcome;
do $$
declare tenant uuid;
begin
  for tenant in select id from tenants order by id loop
    perform set_config('app.current_tenant', tenant::text, true);
    delete from audit where tenant_id = tenant and outcome <> 'done';
  end loop;
  perform set_config('app.current_tenant', '', true);
end $$;
alter table audit drop column outcome;
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
