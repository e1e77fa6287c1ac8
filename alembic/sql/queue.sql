-- The job queue, and the functions that read it across tenants: to hand out work, to wait for it, and to count it.

create table jobs (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  kind text not null check (kind in
    ('ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors', 'reembed', 'match_changes',
     'deliver_webhooks', 'erase')),
  subject text not null,
  state text not null default 'queued' check (state in ('queued', 'running')),
  attempts integer not null default 0,
  fence bigint not null default 0,
  run_at timestamptz not null default clock_timestamp(),
  lease_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  model_id integer not null default 0,
  lost integer not null default 0,
  postponed integer not null default 0,
  primary key (tenant_id, id)
);
comment on column jobs.subject is 'The object of the job, e.g. the id of the asset; at most one queued job for each kind and subject';
comment on column jobs.attempts is 'Tries so far, except those that ended for reasons outside the job';
comment on column jobs.fence is 'Grows with each claim: a worker presumed dead finds its number outdated and changes nothing';
comment on column jobs.model_id is 'The model whose provider the job needs; 0 if it needs none';
comment on column jobs.lost is 'Number of workers that died or were presumed dead while they held the job';
comment on column jobs.postponed is 'How often the job was put back because its provider was unavailable';
create unique index jobs_queued_once on jobs (tenant_id, kind, subject) where state = 'queued';
create index jobs_queued on jobs (tenant_id, model_id, kind, run_at) where state = 'queued';
create index jobs_running on jobs (lease_until) where state = 'running';

-- The queue reads the jobs of all tenants, and can change only these columns.
grant select, update (state, attempts, fence, lease_until, lost) on jobs to kb_queue;
grant select (id, paused_until) on embedding_models to kb_queue;
create policy queue_select on jobs for select to kb_queue using (state in ('queued', 'running'));
create policy queue_update on jobs for update to kb_queue
  using (state in ('queued', 'running')) with check (state = 'running');

create schema queue authorization current_user;
grant usage on schema queue to kb_app, kb_queue;
grant create on schema queue to kb_queue;
set local role kb_queue;

-- Jobs of dead workers go first: they have waited the longest, and there are few.
--
-- The tenant is chosen at random among those with the fewest running jobs and work of the requested kinds. Each tenant
-- gets its share regardless of what others have queued, and the last turn does not have to be stored. The walk reads one
-- index row for each tenant, model and kind, regardless of the number of jobs.
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
revoke all on function queue.claim_job(text[], interval) from public;
grant execute on function queue.claim_job(text[], interval) to kb_app;

-- The seconds until a job of these kinds can be claimed, negative if one can; null without any. A running job can when the
-- lease of its worker ends, and one whose provider is paused when the pause ends.
create or replace function queue.next_due(p_kinds text[]) returns double precision
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
  ), due as (
    select w.kind, w.model_id, w.run_at as at from walk w
    union all
    select r.kind, r.model_id, r.lease_until from jobs r where r.state = 'running'
  )
  select extract(epoch from min(greatest(d.at, m.paused_until)) - clock_timestamp())::double precision
    from due d left join embedding_models m on m.id = d.model_id where d.kind = any (p_kinds)
$$;
revoke all on function queue.next_due(text[]) from public;
grant execute on function queue.next_due(text[]) to kb_app;

-- The number of waiting, running and overdue jobs over all tenants together; only figures for monitoring. Ages are
-- exact: the walk reads one index row for each tenant, model and kind. Counts stop at p_most rows.
create or replace function queue.count_jobs(p_most integer)
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

reset role;
revoke create on schema queue from kb_queue;
