-- Records that grow by calls alone: their number, their bytes, and the removal of the oldest.

-- name: counts
-- Bytes are the mean of the newest thousand rows, times the number of rows, without indexes.
select 'receipts' as name, n.rows, (n.rows * coalesce(s.mean, 0))::bigint as bytes
  from (select count(*) as rows from searches where tenant_id = :tenant_id) n
 cross join (select avg(180 + pg_column_size(receipt)) as mean
               from (select receipt from searches where tenant_id = :tenant_id order by at desc limit 1000) l) s
union all
select 'feedback', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from feedback where tenant_id = :tenant_id) n
 cross join (select avg(120 + coalesce(pg_column_size(query), 0)) as mean
               from (select query from feedback where tenant_id = :tenant_id limit 1000) l) s
union all
select 'audit', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from audit where tenant_id = :tenant_id) n
 cross join (select avg(140 + pg_column_size(subject_ids) + pg_column_size(detail)) as mean
               from (select subject_ids, detail from audit
                      where tenant_id = :tenant_id order by at desc, id desc limit 1000) l) s
union all
select 'saved_searches', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from saved_searches where tenant_id = :tenant_id) n
 cross join (select avg(140 + pg_column_size(request)) as mean
               from (select request from saved_searches where tenant_id = :tenant_id limit 1000) l) s
union all
select 'deliveries', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from deliveries where tenant_id = :tenant_id) n
 cross join (select avg(220 + pg_column_size(finding)) as mean
               from (select finding from deliveries where tenant_id = :tenant_id limit 1000) l) s
union all
select 'former_versions', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from former_entries where tenant_id = :tenant_id) n
 cross join (select avg(pg_column_size(f.*)) as mean
               from (select * from former_entries where tenant_id = :tenant_id order by valid_until desc limit 1000) f) s;

-- name: drop_receipts
delete from searches
 where tenant_id = :tenant_id
   and id = any (array(select s.id from searches s where s.tenant_id = :tenant_id order by s.at, s.id
                        limit least(:batch::bigint, greatest(0, (select count(*) from searches c where c.tenant_id = :tenant_id)
                                                                - :most::bigint))));

-- name: drop_feedback
delete from feedback f
 using (select o.search_id, o.entry_id, o.subject from feedback o where o.tenant_id = :tenant_id order by o.at
         limit least(:batch::bigint, greatest(0, (select count(*) from feedback c where c.tenant_id = :tenant_id)
                                                 - :most::bigint))) o
 where f.tenant_id = :tenant_id and f.search_id = o.search_id and f.entry_id = o.entry_id and f.subject = o.subject;

-- name: drop_deliveries
-- Only those that have ended: pending ones have a bound of their own.
delete from deliveries
 where tenant_id = :tenant_id
   and id = any (array(select d.id from deliveries d where d.tenant_id = :tenant_id and d.ended_at is not null
                        order by d.ended_at
                        limit least(:batch::bigint,
                                    greatest(0, (select count(*) from deliveries c
                                                  where c.tenant_id = :tenant_id and c.ended_at is not null)
                                                - :most::bigint))));

-- name: prune_audit
-- With a tenant its trail, else the platform's. The owner's function removes rows; the service cannot.
select tenancy.prune_audit(:most, :batch);
