"""How much work waits, runs and is overdue, over all tenants together: figures for monitoring, and nothing else."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0017"
down_revision = "0016"

# Ages are exact: the walk reads one index row for each tenant, model and kind. Counts stop at p_most rows.
COUNT = """
create function queue.count_jobs(p_most integer)
returns table (kind text, waiting bigint, scheduled bigint, running bigint, oldest_seconds double precision)
language sql stable security definer set search_path = pg_catalog, public, pg_temp
as $$
  with recursive walk as (
    (select j.tenant_id, j.model_id, j.kind, j.run_at from jobs j
      where j.state = 'queued' order by j.tenant_id, j.model_id, j.kind, j.run_at limit 1)
    union all
    select n.tenant_id, n.model_id, n.kind, n.run_at from walk w cross join lateral (
      select j.tenant_id, j.model_id, j.kind, j.run_at from jobs j
       where j.state = 'queued' and (j.tenant_id, j.model_id, j.kind) > (w.tenant_id, w.model_id, w.kind)
       order by j.tenant_id, j.model_id, j.kind, j.run_at limit 1) n
  ), counted as (
    select q.kind, count(*) filter (where q.run_at <= clock_timestamp()) as waiting,
           count(*) filter (where q.run_at > clock_timestamp()) as scheduled, 0::bigint as running
      from (select j.kind, j.run_at from jobs j where j.state = 'queued' limit greatest(coalesce(p_most, 0), 0)) q group by q.kind
    union all
    select r.kind, 0, 0, count(*) from (select j.kind from jobs j where j.state = 'running' limit greatest(coalesce(p_most, 0), 0)) r group by r.kind
  )
  select c.kind, sum(c.waiting)::bigint, sum(c.scheduled)::bigint, sum(c.running)::bigint,
         coalesce((select greatest(extract(epoch from clock_timestamp() - min(w.run_at)), 0) from walk w
                    where w.kind = c.kind), 0)::double precision
    from counted c group by c.kind
$$;
revoke all on function queue.count_jobs(integer) from public;
grant execute on function queue.count_jobs(integer) to kb_app;
"""


def upgrade() -> None:
    _run_as_owner(COUNT)


def downgrade() -> None:
    _run_as_owner("drop function queue.count_jobs(integer);")


def _run_as_owner(script: str) -> None:
    execute_script(
        "grant create on schema queue to kb_queue; set local role kb_queue;\n"
        f"{script}\n"
        "reset role; revoke create on schema queue from kb_queue;"
    )
