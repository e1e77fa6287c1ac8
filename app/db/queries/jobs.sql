-- The job queue, for workers and for callers that queue jobs.

-- name: enqueue
-- The notification is sent with the commit. It is a hint: the seconds until the job is due. A job that is already queued at
-- an earlier time is only locked until the commit, so that no worker runs it before; its time was announced.
with queued as (
  insert into jobs (tenant_id, id, kind, subject, run_at, model_id)
  values (:tenant_id, :id, :kind, :subject, clock_timestamp() + :delay::interval,
          case when :needs_provider::boolean
               then coalesce((select model_id from tenants where id = :tenant_id), 0) else 0 end)
  on conflict (tenant_id, kind, subject) where state = 'queued'
  do update set run_at = least(jobs.run_at, excluded.run_at), model_id = excluded.model_id
            where jobs.run_at > excluded.run_at or jobs.model_id <> excluded.model_id
  returning 1
)
select pg_notify('jobs', extract(epoch from :delay::interval)::text)
 where :delay::interval = interval '0' or exists (select from queued);

-- name: announce
select pg_notify('jobs', :text);

-- name: next_due
select queue.next_due(:kinds::text[]);

-- name: claim
select tenant_id, id, kind, subject, attempts, fence, lost, postponed
  from queue.claim_job(:kinds::text[], :lease::interval);

-- name: extend
update jobs set lease_until = clock_timestamp() + :lease::interval
 where tenant_id = :tenant_id and id = :id and fence = :fence and state = 'running';

-- name: complete
delete from jobs where tenant_id = :tenant_id and id = :id and fence = :fence and state = 'running';

-- name: release
-- Returns the job to the queue, unless the same job was queued again in the meantime. A postponed job waits twice as
-- long each time, up to :longest: if the job itself makes the provider fail, other jobs can run in between.
with freed as (
  delete from jobs where tenant_id = :tenant_id and id = :id and fence = :fence and state = 'running' returning *
), queued as (
  insert into jobs (tenant_id, id, kind, subject, attempts, fence, lost, postponed, model_id, run_at, created_at)
  select tenant_id, id, kind, subject, case when :counts::boolean then attempts else greatest(attempts - 1, 0) end, fence,
         lost, case when :postpones::boolean then postponed + 1 else postponed end,
         case when :needs_provider::boolean
              then coalesce((select t.model_id from tenants t where t.id = freed.tenant_id), 0) else 0 end,
         clock_timestamp() + case when :postpones::boolean
                                  then least(:delay::interval * 2 ^ least(postponed, 20),
                                             greatest(:delay::interval, :longest::interval))
                                  else :delay::interval end,
         created_at
    from freed
  on conflict (tenant_id, kind, subject) where state = 'queued' do nothing
  returning run_at
)
select pg_notify('jobs', greatest(extract(epoch from run_at - clock_timestamp()), 0)::text) from queued;

-- name: pause
-- Until then, no job that needs the model is handed out.
update embedding_models set paused_until = greatest(paused_until, now() + :pause::interval) where id = :model_id;

-- name: model
select model_id from tenants where id = :tenant_id;

-- name: is_paused
select coalesce((select m.paused_until > clock_timestamp()
                   from embedding_models m join tenants t on t.model_id = m.id where t.id = :tenant_id), false);

-- name: hold_subject
-- Until the transaction ends, others that cancel or hold jobs of this subject wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' ' || :kind || ' ' || :subject, 0));

-- name: cancel
delete from jobs where tenant_id = :tenant_id and kind = :kind and subject = :subject;

-- name: count
select count(*) from jobs where tenant_id = :tenant_id;

-- name: figures
select kind, waiting, scheduled, running, oldest_seconds from queue.count_jobs(:most);
