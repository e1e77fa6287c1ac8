"""The job queue, and the one function that looks across tenants to hand out work."""

from __future__ import annotations

from app.db.schema.migration import execute_script, isolate_tables

revision = "0004"
down_revision = "0003"

UP = f"""
create table jobs (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  kind text not null check (kind in ('ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors')),
  subject text not null,
  state text not null default 'queued' check (state in ('queued', 'running')),
  attempts integer not null default 0,
  fence bigint not null default 0,
  run_at timestamptz not null default clock_timestamp(),
  lease_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
comment on column jobs.subject is 'What the job is about, e.g. the id of the asset; one queued job for each kind and subject';
comment on column jobs.fence is 'Grows with each claim: a worker given up for dead finds its number outdated and changes nothing';
create unique index jobs_queued_once on jobs (tenant_id, kind, subject) where state = 'queued';
create index jobs_queued on jobs (tenant_id, run_at) where state = 'queued';
create index jobs_running on jobs (lease_until) where state = 'running';
{isolate_tables("jobs")}

create schema queue authorization current_user;
grant usage, create on schema queue to kb_queue;
grant usage on schema public to kb_queue;
grant select, update (state, attempts, fence, lease_until) on jobs to kb_queue;
-- The queue sees the work of all tenants, and of it no more than these columns.
create policy queue_select on jobs for select to kb_queue using (state in ('queued', 'running'));
create policy queue_update on jobs for update to kb_queue
  using (state in ('queued', 'running')) with check (state = 'running');

set local role kb_queue;
-- Fair: of the tenants with due work, the one with the fewest running jobs comes first, then the longest waiting.
-- The walk over tenants reads one index row for each, however many jobs a tenant has.
create function queue.claim_job(p_kinds text[], p_lease interval)
returns table (tenant_id uuid, id uuid, kind text, subject text, attempts integer, fence bigint)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
declare chosen record;
begin
  for chosen in
    with recursive waiting as (
      (select j.tenant_id, j.run_at from jobs j where j.state = 'queued' order by j.tenant_id, j.run_at limit 1)
      union all
      select n.tenant_id, n.run_at from waiting w cross join lateral (
        select j.tenant_id, j.run_at from jobs j
         where j.state = 'queued' and j.tenant_id > w.tenant_id order by j.tenant_id, j.run_at limit 1) n
    )
    select w.tenant_id from waiting w
     where w.run_at <= clock_timestamp()
     order by (select count(*) from jobs r where r.tenant_id = w.tenant_id and r.state = 'running'
                  and r.lease_until > clock_timestamp()), w.run_at
     limit 16
  loop
    return query
      update jobs u set state = 'running', attempts = u.attempts + 1, fence = u.fence + 1,
                        lease_until = clock_timestamp() + p_lease
       where (u.tenant_id, u.id) = (
         select j.tenant_id, j.id from jobs j
          where j.tenant_id = chosen.tenant_id and j.state = 'queued' and j.run_at <= clock_timestamp()
            and j.kind = any (p_kinds)
          order by j.run_at limit 1 for update skip locked)
      returning u.tenant_id, u.id, u.kind, u.subject, u.attempts, u.fence;
    if found then
      return;
    end if;
  end loop;
  return query
    update jobs u set state = 'running', attempts = u.attempts + 1, fence = u.fence + 1,
                      lease_until = clock_timestamp() + p_lease
     where (u.tenant_id, u.id) = (
       select j.tenant_id, j.id from jobs j
        where j.state = 'running' and j.lease_until < clock_timestamp() and j.kind = any (p_kinds)
        order by j.lease_until limit 1 for update skip locked)
    returning u.tenant_id, u.id, u.kind, u.subject, u.attempts, u.fence;
end $$;
revoke all on function queue.claim_job(text[], interval) from public;
grant execute on function queue.claim_job(text[], interval) to kb_app;
reset role;
revoke create on schema queue from kb_queue;
grant usage on schema queue to kb_app;
"""

DOWN = """
drop schema queue cascade;
drop table jobs;
revoke usage on schema public from kb_queue;
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
