-- Facets: the values that all matches of a search have, with counts.

-- name: facets
-- The matches are found by their words, if there is a text, and by their vectors, if there is one; with `ids`, the ids of
-- all entries that pass the filter, only these are compared. `near` are matches that an index has found. Of the entries
-- found by their words, at most :most are counted; `complete` is false if there are more. With `pending_only`, these are
-- only entries without a vector. A row without a value has the number of matches without one, and a row without a name
-- the number of all matches. Values of metadata count once in an entry, each item of a list for itself.
with words as (
  select array_agg(w.lexeme) as lexemes, array_agg(l.language) as languages, bool_or(w.cut) as cut
    from (select distinct language from corpus_statistics
           where tenant_id = :tenant_id and principal = any (current_principals()) and entries > 0) l
   cross join lateral (
     select u.lexeme, count(*) over () > 200 as cut
       from unnest(text_lexemes(l.language, :words) || identifier_lexemes(:query)) u
      order by u.positions[1] nulls first limit 200) w
   where :query::text is not null
), worded as materialized (
  select distinct m.entry_id
    from words w
   cross join lateral keyword.matching_entries(w.lexemes, w.languages, :alternatives::text[], null, :filter, :ids::uuid[],
                                               :most + 1) m
), near as materialized (
  -- Two statements in one: with a condition for both, the ids would be compared with every passage.
  select p.entry_id
    from embeddings p
   where :vector::halfvec({dimensions}) is not null and :ids::uuid[] is null
     and p.tenant_id = :tenant_id and p.model_id = {model_id}
     and p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) <= :max_distance
  union all
  select p.entry_id
    from unnest(:ids::uuid[]) i (id)
    join embeddings p on p.tenant_id = :tenant_id and p.entry_id = i.id and p.model_id = {model_id}
   where :vector::halfvec({dimensions}) is not null
     and p.embedding::halfvec({dimensions}) <=> :vector::halfvec({dimensions}) <= :max_distance
), found as materialized (
  (select w.entry_id from worded w
    where not :pending_only
       or not exists (select from embeddings p
                       where p.tenant_id = :tenant_id and p.entry_id = w.entry_id and p.model_id = {model_id})
    limit :most)
  union
  select n.entry_id from near n
  union
  select i from unnest(:near::uuid[]) i
), matches as materialized (
  select e.*
    from found f
   cross join lateral (
     select e.tags, e.entry_type, e.roles, e.scope, e.asset_id, e.metadata from entries e
      where e.tenant_id = :tenant_id and e.id = f.entry_id and entry_matches(e, :filter)
     offset 0) e
), counted as (
  select null as name, null::jsonb as value, count(*) as entries from matches
  union all
  select v.name, to_jsonb(v.value), count(*)
    from matches m
   cross join lateral (
     values ('entry_type', m.entry_type), ('scope', m.scope), ('asset_id', m.asset_id::text),
            ('source', case when m.asset_id is null then 'entry' else 'asset' end)) v (name, value)
   where v.name = any (:names::text[]) group by v.name, v.value
  union all
  select 'tags', to_jsonb(t.tag), count(*) from matches m left join lateral unnest(m.tags) t (tag) on true
   where 'tags' = any (:names::text[]) group by t.tag
  union all
  select 'roles', to_jsonb(r.role), count(*) from matches m left join lateral unnest(m.roles) r (role) on true
   where 'roles' = any (:names::text[]) group by r.role
  union all
  select 'metadata.' || k.key, v.value, count(*)
    from unnest(:keys::text[]) k (key) cross join matches m
    left join lateral (
      select distinct a.value
        from jsonb_array_elements(case jsonb_typeof(m.metadata -> k.key)
               when 'array' then m.metadata -> k.key else jsonb_build_array(m.metadata -> k.key) end) a (value)
       where jsonb_typeof(a.value) in ('string', 'number', 'boolean')) v on true
   group by k.key, v.value
), ranked as (
  select c.name, c.value, c.entries,
         case when c.value is null then 'missing'
              when c.short and row_number() over (partition by c.name, c.short order by c.entries desc, c.value #>> '{{}}') <= :values
              then 'value' else 'other' end as kind
    from (select *, value is not null and length(value #>> '{{}}') <= :longest as short from counted) c
)
select r.name, case when r.kind = 'value' then r.value end as value, sum(r.entries)::bigint as count, r.kind,
       (select count(*) from worded) <= :most and not coalesce((select cut from words), false) as complete
  from ranked r group by 1, 2, 4;
