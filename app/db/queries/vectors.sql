-- The vectors of a search: the nearest entries, and the entries that have no vector yet.

-- name: exact_all
-- Every passage of the tenant is compared; checking entries stops as soon as enough have passed. The fence around the
-- inner query passes on only distances: with the vectors, grouping 10,000 rows took five times as long. Entries at the
-- same distance as the last one are read too, so that the newest of them can be kept, and one entry more, which shows
-- whether the limit cut any off: beyond it, `matches` extrapolates from the entries checked. There is always a row, with
-- null for an entry if none was found.
with near as materialized (
  select p.entry_id, min(p.distance) as distance
    from (
      select entry_id, embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) as distance
        from embeddings
       where tenant_id = :tenant_id and model_id = {model_id}
      offset 0) p
   where p.distance <= :max_distance
   group by p.entry_id
), nearest as (
  select n.entry_id, n.distance, n.place, e.updated_at, e.pattern
    from (select entry_id, distance, row_number() over (order by distance) as place from near) n
   cross join lateral (
     select e.updated_at, e.pattern from entries e
      where e.tenant_id = :tenant_id and e.id = n.entry_id and entry_matches(e, :filter)
     offset 0) e
   order by n.distance
   fetch first (:limit + 1) rows with ties
)
select n.entry_id, n.updated_at, 1 - n.distance as similarity, n.pattern,
       case when count(*) over () <= :limit then count(n.entry_id) over ()
            else greatest(count(*) over (), (select count(*) from near) * count(*) over () / max(n.place) over ()) end as matches,
       (select pending_entries(:tenant_id, {model_id}, :filter, null, :most_pending)) as pending
  from (values (true)) always (row)
  left join nearest n on true
 order by n.distance, n.updated_at desc, n.entry_id
 limit :limit;

-- name: exact_ids
-- Only the passages of entries that passed the filter are compared. Ties and rows are as in `exact_all`.
with near as materialized (
  select p.entry_id, min(p.distance) as distance
    from (
      select wanted.id as entry_id, k.distance
        from unnest(:ids::uuid[]) wanted (id)
       cross join lateral (
         select embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) as distance from embeddings
          where tenant_id = :tenant_id and model_id = {model_id} and entry_id = wanted.id
         offset 0) k) p
   where p.distance <= :max_distance
   group by p.entry_id
), nearest as (
  select n.entry_id, n.distance, e.updated_at, e.pattern
    from (select entry_id, distance from near order by distance fetch first :limit rows with ties) n
   cross join lateral (
     select e.updated_at, e.pattern from entries e where e.tenant_id = :tenant_id and e.id = n.entry_id offset 0) e
)
select n.entry_id, n.updated_at, 1 - n.distance as similarity, n.pattern, (select count(*) from near) as matches,
       (select pending_entries(:tenant_id, {model_id}, null, :ids, :most_pending)) as pending
  from (values (true)) always (row)
  left join nearest n on true
 order by n.distance, n.updated_at desc, n.entry_id
 limit :limit;

-- name: indexed
-- Passages in the order of the tenant's HNSW index, nearest first within the limits of relaxed order; read through a
-- cursor. The tenant is a literal, so that the planner proves the condition of the tenant's index. `complete` is false if
-- the tenant shrank and its index was given up since the caller looked: newer vectors are not in it.
select n.entry_id, e.updated_at, 1 - n.distance as similarity, e.pattern,
       (select pending_entries({tenant_id}, {model_id}, :filter, null, :most_pending)) as pending,
       (select v.index_state = 'ready' from vector_statistics v
         where v.tenant_id = {tenant_id} and v.model_id = {model_id}) as complete
  from (
    select entry_id, embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) as distance
      from embeddings
     where tenant_id = {tenant_id} and model_id = {model_id} and in_index
     order by embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions})
    offset 0
  ) n
 cross join lateral (
   select e.updated_at, e.pattern from entries e
    where e.tenant_id = {tenant_id} and e.id = n.entry_id and entry_matches(e, :filter)
   offset 0) e;

-- name: pending
select pending_entries(:tenant_id, {model_id}, :filter, null, :most_pending);

-- name: pending_then
select pending_entries(:tenant_id, {model_id}, :filter, null, :most_pending)
     + pending_versions(:tenant_id, {model_id}, :filter, :most_pending);

-- name: cosines
-- The similarity of the nearest passage of each entry that has a vector.
select wanted.id as entry_id, 1 - p.distance as similarity
  from unnest(:ids::uuid[]) wanted (id)
 cross join lateral (
   select min(p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions})) as distance from {embeddings} p
    where p.tenant_id = :tenant_id and p.entry_id = wanted.id and p.model_id = {model_id} offset 0) p
 where p.distance is not null;

-- name: count_passages
select count(*) from embeddings where tenant_id = :tenant_id and model_id = {model_id};

-- name: has_vectors
select exists (
  select from embeddings k
   cross join lateral (
     select from entries e where e.tenant_id = :tenant_id and e.id = k.entry_id and entry_matches(e, :filter) offset 0) e
   where k.tenant_id = :tenant_id and k.model_id = {model_id});

-- name: first_vectors
select p.entry_id, p.embedding
  from unnest(:ids::uuid[]) wanted (id)
 cross join lateral (
   select p.entry_id, p.embedding from {embeddings} p
    where p.tenant_id = :tenant_id and p.entry_id = wanted.id and p.model_id = {model_id} and p.passage = 0 offset 0) p;

-- name: former_nearest
-- The former versions that were valid at a time and are nearest then. At most :most_compared vectors of the tenant's former
-- texts are compared, and the versions of the nearest :most_checked passages are checked until enough have passed; `matches`
-- extrapolates. `complete`: no other version that passes the filter is nearer than those found, or near enough.
with passages as materialized (
  select p.entry_id, p.text_hash, p.distance
    from (
      select entry_id, text_hash, embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) as distance
        from former_embeddings
       where tenant_id = :tenant_id and model_id = {model_id}
       limit :most_compared) p
   where p.distance <= :max_distance
   order by p.distance limit :most_checked
), near as materialized (
  select entry_id, text_hash, min(distance) as distance from passages group by entry_id, text_hash
), nearest as (
  select n.entry_id, n.distance, n.place, v.updated_at, v.pattern
    from (select entry_id, text_hash, distance, row_number() over (order by distance) as place from near) n
   cross join lateral (
     select v.updated_at, v.pattern from former_entries v
      where v.tenant_id = :tenant_id and v.id = n.entry_id and v.text_hash = n.text_hash and not v.absent
        and v.valid_from <= :as_of and v.valid_until > :as_of and entry_passes(former_entry(v), :filter)
        and (v.repeats is null or not repeats_another(v.id, v.repeats, v.text_hash, :filter))
     offset 0) v
   order by n.distance
   fetch first (:limit + 1) rows with ties
)
select n.entry_id, n.updated_at, 1 - n.distance as similarity, n.pattern,
       case when count(*) over () <= :limit then count(n.entry_id) over ()
            else greatest(count(*) over (), (select count(*) from near) * count(*) over () / max(n.place) over ()) end as matches,
       (select pending_versions(:tenant_id, {model_id}, :filter, :most_pending)) as pending,
       (count(n.entry_id) over () > :limit or (select count(*) from passages) < :most_checked)
         and not exists (select from former_embeddings k where k.tenant_id = :tenant_id and k.model_id = {model_id}
                         offset :most_compared) as complete
  from (values (true)) always (row)
  left join nearest n on true
 order by n.distance, n.updated_at desc, n.entry_id
 limit :limit;

-- name: former_ids
select keyword.former_ids(:filter, :limit);

-- name: former_of_ids
-- Only the passages of versions that passed the filter are compared. Ties and rows are as in `exact_all`.
with near as materialized (
  select p.entry_id, p.updated_at, p.pattern, min(p.distance) as distance
    from (
      select v.id as entry_id, v.updated_at, v.pattern, k.distance
        from unnest(:ids::uuid[]) c (id)
       cross join lateral (
         select f.id, f.updated_at, f.text_hash, f.pattern from former_entries f
          where f.tenant_id = :tenant_id and f.id = c.id and f.valid_until > :as_of and f.valid_from <= :as_of and not f.absent
         offset 0) v
       cross join lateral (
         select m.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) as distance
           from former_embeddings m
          where m.tenant_id = :tenant_id and m.entry_id = v.id and m.text_hash = v.text_hash and m.model_id = {model_id}
         offset 0) k) p
   where p.distance <= :max_distance
   group by p.entry_id, p.updated_at, p.pattern
), nearest as (
  select n.entry_id, n.updated_at, n.pattern, n.distance from near n order by n.distance fetch first :limit rows with ties
)
select n.entry_id, n.updated_at, 1 - n.distance as similarity, n.pattern, (select count(*) from near) as matches,
       (select pending_versions(:tenant_id, {model_id}, :filter, :most_pending)) as pending, true as complete
  from (values (true)) always (row)
  left join nearest n on true
 order by n.distance, n.updated_at desc, n.entry_id
 limit :limit;

-- name: has_former_vectors
-- At most :most_checked versions are looked at.
select exists (
  select from (
    select v.id, v.valid_until from former_entries v
     where v.tenant_id = :tenant_id and v.valid_until > :as_of and v.valid_from <= :as_of and not v.absent
       and {model_id} = any (v.embedded)
     limit :most_checked) o
   cross join lateral (
     select from former_entries v
      where v.tenant_id = :tenant_id and v.id = o.id and v.valid_until = o.valid_until
        and entry_passes(former_entry(v), :filter)
     offset 0) p);
