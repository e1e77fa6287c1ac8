"""A queue that waits for a provider that is away, serves tenants by lot, and takes over from the dead first."""

from __future__ import annotations

from alembic import op
from app.db.schema.migration import execute_script

revision = "0009"
down_revision = "0008"

# Jobs queued before keep model 0: one that meets a provider that is away is put back with its model's number.
TABLES = """
alter table jobs add column model_id integer not null default 0, add column lost integer not null default 0,
                 add column postponed integer not null default 0;
comment on column jobs.model_id is 'The model whose provider the work needs; 0 where it needs none';
comment on column jobs.attempts is 'Tries begun, but for those that ended for no fault of the work';
comment on column jobs.lost is 'How often a worker died, or was given up for dead, while it had the job';
comment on column jobs.postponed is 'How often the job was put back because its provider was away';
drop index jobs_queued;
create index jobs_queued on jobs (tenant_id, model_id, run_at) where state = 'queued';
alter table embedding_models add column paused_until timestamptz;
comment on column embedding_models.paused_until is 'Until then no job that needs this model is handed out';
grant update (paused_until) on embedding_models to kb_app;
grant select (id, paused_until) on embedding_models to kb_queue;
grant update (lost) on jobs to kb_queue;
"""

# A tenant's turn is drawn by lot among those with the fewest running jobs: each gets its share whatever the others
# have queued, and nothing needs to be remembered of whose turn was last. The walk reads one index row for each
# tenant and model, however many jobs there are. Work of dead workers goes first: it waits the longest, and is little.
CLAIM = """
drop function queue.claim_job(text[], interval);
create function queue.claim_job(p_kinds text[], p_lease interval)
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
      (select j.tenant_id, j.model_id, j.run_at from jobs j
        where j.state = 'queued' order by j.tenant_id, j.model_id, j.run_at limit 1)
      union all
      select n.tenant_id, n.model_id, n.run_at from waiting w cross join lateral (
        select j.tenant_id, j.model_id, j.run_at from jobs j
         where j.state = 'queued' and (j.tenant_id, j.model_id) > (w.tenant_id, w.model_id)
         order by j.tenant_id, j.model_id, j.run_at limit 1) n
    ), running as (
      select r.tenant_id, count(*) as jobs from jobs r
       where r.state = 'running' and r.lease_until > clock_timestamp() group by r.tenant_id
    )
    select w.tenant_id, array_agg(w.model_id) as models
      from waiting w left join running r on r.tenant_id = w.tenant_id
     where w.run_at <= clock_timestamp() and w.model_id <> all (paused)
     group by w.tenant_id, r.jobs
     order by coalesce(r.jobs, 0), random()
     limit 16
  loop
    return query
      update jobs u set state = 'running', attempts = u.attempts + 1, fence = u.fence + 1,
                        lease_until = clock_timestamp() + p_lease
       where (u.tenant_id, u.id) = (
         select j.tenant_id, j.id
           from unnest(chosen.models) m (id) cross join lateral (
             select q.tenant_id, q.id, q.run_at from jobs q
              where q.tenant_id = chosen.tenant_id and q.model_id = m.id and q.state = 'queued'
                and q.run_at <= clock_timestamp() and q.kind = any (p_kinds)
              order by q.run_at limit 1 for update skip locked) j
          order by j.run_at limit 1)
      returning u.tenant_id, u.id, u.kind, u.subject, u.attempts, u.fence, u.lost, u.postponed;
    if found then
      return;
    end if;
  end loop;
end $$;
"""

RIGHTS = """
revoke all on function queue.claim_job(text[], interval) from public;
grant execute on function queue.claim_job(text[], interval) to kb_app;
"""

TABLES_DOWN = """
drop index jobs_queued;
alter table jobs drop column model_id, drop column lost, drop column postponed;
comment on column jobs.attempts is null;
create index jobs_queued on jobs (tenant_id, run_at) where state = 'queued';
revoke select (id) on embedding_models from kb_queue;
alter table embedding_models drop column paused_until;
"""


def upgrade() -> None:
    execute_script(TABLES)
    _run_as_owner(CLAIM)


def downgrade() -> None:
    _run_as_owner("drop function queue.claim_job(text[], interval);\n" + _released_function())
    execute_script(TABLES_DOWN)


def _released_function() -> str:
    """The function as revision 0004 made it."""
    script = op.get_context().script.get_revision("0004").module.UP
    start = script.index("create function queue.claim_job(")
    end = script.index("end $$;", start) + len("end $$;")
    return str(script[start:end])


def _run_as_owner(function: str) -> None:
    execute_script(
        "grant create on schema queue to kb_queue; set local role kb_queue;\n"
        f"{function}\n{RIGHTS}\n"
        "reset role; revoke create on schema queue from kb_queue;"
    )
