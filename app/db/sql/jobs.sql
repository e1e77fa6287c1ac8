-- name: enqueue
insert into jobs (tenant_id, id, kind, subject, run_at)
values (:tenant_id, :id, :kind, :subject, clock_timestamp() + :delay::interval)
on conflict (tenant_id, kind, subject) where state = 'queued'
do update set run_at = least(jobs.run_at, excluded.run_at);

-- name: claim
select tenant_id, id, kind, subject, attempts, fence from queue.claim_job(:kinds::text[], :lease::interval);

-- name: extend
update jobs set lease_until = clock_timestamp() + :lease::interval
 where tenant_id = :tenant_id and id = :id and fence = :fence and state = 'running';

-- name: complete
delete from jobs where tenant_id = :tenant_id and id = :id and fence = :fence and state = 'running';

-- name: release
-- Back into the queue, unless the same work was queued again meanwhile.
with freed as (
  delete from jobs where tenant_id = :tenant_id and id = :id and fence = :fence and state = 'running' returning *
)
insert into jobs (tenant_id, id, kind, subject, attempts, fence, run_at, created_at)
select tenant_id, id, kind, subject, case when :counts::boolean then attempts else greatest(attempts - 1, 0) end, fence,
       clock_timestamp() + :delay::interval, created_at
  from freed
on conflict (tenant_id, kind, subject) where state = 'queued' do nothing;

-- name: cancel
delete from jobs where tenant_id = :tenant_id and kind = :kind and subject = :subject;

-- name: count
select count(*) from jobs where tenant_id = :tenant_id;
