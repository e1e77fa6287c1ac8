"""Turns are drawn among the tenants that have work of the kinds asked for."""

from __future__ import annotations

from typing import Any

from alembic import op
from app.db.schema.migration import execute_script

revision = "0016"
down_revision = "0015"

INDEX = """
drop index jobs_queued;
create index jobs_queued on jobs (tenant_id, model_id, kind, run_at) where state = 'queued';
"""

# As in 0009, but that the walk sees kinds: it reads one index row for each tenant, model and kind. Before, sixteen
# tenants with other work hid the one whose work was asked for.
CLAIM = """
create or replace function queue.claim_job(p_kinds text[], p_lease interval)
returns table (tenant_id uuid, id uuid, kind text, subject text, attempts integer, fence bigint, lost integer,
               postponed integer)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
declare
  chosen record;
  paused integer[] := array(select m.id from embedding_models m where m.paused_until > clock_timestamp());
begin
  return query
    update jobs u set lost = u.lost + 1, fence = u.fence + 1, lease_until = clock_timestamp() + p_lease
     where (u.tenant_id, u.id) = (
       select j.tenant_id, j.id from jobs j
        where j.state = 'running' and j.lease_until < clock_timestamp() and j.kind = any (p_kinds)
          and j.model_id <> all (paused)
        order by j.lease_until limit 1 for update skip locked)
    returning u.tenant_id, u.id, u.kind, u.subject, u.attempts, u.fence, u.lost, u.postponed;
  if found then
    return;
  end if;
  for chosen in
    with recursive waiting as (
      (select j.tenant_id, j.model_id, j.kind, j.run_at from jobs j
        where j.state = 'queued' order by j.tenant_id, j.model_id, j.kind, j.run_at limit 1)
      union all
      select n.tenant_id, n.model_id, n.kind, n.run_at from waiting w cross join lateral (
        select j.tenant_id, j.model_id, j.kind, j.run_at from jobs j
         where j.state = 'queued' and (j.tenant_id, j.model_id, j.kind) > (w.tenant_id, w.model_id, w.kind)
         order by j.tenant_id, j.model_id, j.kind, j.run_at limit 1) n
    ), running as (
      select r.tenant_id, count(*) as jobs from jobs r
       where r.state = 'running' and r.lease_until > clock_timestamp() group by r.tenant_id
    )
    select w.tenant_id, array_agg(w.model_id) as models, array_agg(w.kind) as kinds
      from waiting w left join running r on r.tenant_id = w.tenant_id
     where w.kind = any (p_kinds) and w.run_at <= clock_timestamp() and w.model_id <> all (paused)
     group by w.tenant_id, r.jobs
     order by coalesce(r.jobs, 0), random()
     limit 16
  loop
    return query
      update jobs u set state = 'running', attempts = u.attempts + 1, fence = u.fence + 1,
                        lease_until = clock_timestamp() + p_lease
       where (u.tenant_id, u.id) = (
         select j.tenant_id, j.id
           from unnest(chosen.models, chosen.kinds) m (id, kind) cross join lateral (
             select q.tenant_id, q.id, q.run_at from jobs q
              where q.tenant_id = chosen.tenant_id and q.model_id = m.id and q.kind = m.kind
                and q.state = 'queued' and q.run_at <= clock_timestamp()
              order by q.run_at limit 1 for update skip locked) j
          order by j.run_at limit 1)
      returning u.tenant_id, u.id, u.kind, u.subject, u.attempts, u.fence, u.lost, u.postponed;
    if found then
      return;
    end if;
  end loop;
end $$;
"""

INDEX_DOWN = """
drop index jobs_queued;
create index jobs_queued on jobs (tenant_id, model_id, run_at) where state = 'queued';
"""


def upgrade() -> None:
    execute_script(INDEX)
    _revision_0009()._run_as_owner(CLAIM)


def downgrade() -> None:
    _revision_0009()._run_as_owner(_revision_0009().CLAIM)
    execute_script(INDEX_DOWN)


def _revision_0009() -> Any:
    return op.get_context().script.get_revision("0009").module
